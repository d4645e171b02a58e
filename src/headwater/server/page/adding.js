// Files, folders, addresses, bookmarks -> documents, while the reader goes on reading.

import { app, get, may, post, upload } from "./api.js";
import { t, worded } from "./i18n.js";
import { h, memory } from "./kit.js";
import { toast } from "./said.js";

const AT_ONCE = 20; // files to a request, so that the first are indexed while the rest is sent
const OF_ONE = [400, 413, 422]; // what a server refuses of one file, and not of another
const OPEN = ["pending", "processing"];
export const UNDER_WAY = [...OPEN, "indexed"]; // those that can be stopped
const PACE_SECONDS = 1;
const AWAY_SECONDS = 4; // until a server that does not answer is asked again
const watchers = new Set(); // who wants to know that documents changed
let following = false;
let asked = false; // to look once more, while it is being done
let told = false; // that something was sent, whose end is to be said
let away = 0; // the timer that asks again
let lost = null; // how many could not be read when it was last looked

/** Be told when something was added, indexed or removed, until the returned function is called. */
export function onChange(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export async function changed() {
  try {
    const about = await get("/api/v1/about");
    app.set({ about, collections: about.collections });
  } catch {
    /* the next call says what is wrong */
  }
  for (const watcher of [...watchers]) watcher();
}

/** Every document that may be seen, of one collection or of all. */
export async function documents({ collection = "", keywords = "", size = 200, pages = 1 } = {}) {
  const asked = (app.get("collections") || []).filter((one) => !collection || one.name === collection);
  const of = (one, page) => get(`/api/v1/datasets/${encodeURIComponent(one.id)}/documents`, { page, page_size: size, orderby: "update_time", keywords });
  const found = await Promise.all(asked.map((one) => of(one, 1)));
  const rest = await Promise.all(asked.map((one, at) => Promise.all(Array.from({ length: Math.min(pages, Math.ceil(found[at].total / size)) - 1 }, (_, more) => of(one, more + 2)))));
  const all = found.flatMap((one, at) => [one, ...rest[at]].flatMap((part) => part.docs).map((document) => ({ ...document, collection: asked[at].name, own: asked[at].owner === app.get("about").owner })));
  all.sort((a, b) => (b.update_time || b.create_time) - (a.update_time || a.create_time));
  return Object.assign(all, { total: found.reduce((sum, one) => sum + one.total, 0) });
}

/** Where new documents go: the collection that is looked at, else the first of one's own, else one that is made. */
async function target() {
  const about = app.get("about");
  const own = (app.get("collections") || []).filter((one) => one.owner === about?.owner);
  const chosen = own.find((one) => one.name === memory.get("library"));
  if (chosen) return chosen;
  return own.find((one) => one.name !== "station") || post("/api/v1/datasets", { name: "default" });
}

/** Send files; a toast says how far they are, and then how far their indexing is. */
export async function adding(files) {
  if (!files.length || !may("write")) return toast(t(files.length ? "library.reader" : "add.nothing"));
  const said = toast(t("add.sending", { n: files.length }), { progress: true });
  let [at, done, failed, name] = [0, 0, null, ""];
  try {
    const made = await target();
    name = made.name;
    const all = parts(files);
    for (let part = all.shift(); part; part = all.shift()) {
      const form = new FormData();
      form.append("folder", folderOf(part[0]));
      for (const file of part) form.append("file", file, file.name);
      try {
        await upload(`/api/v1/datasets/${encodeURIComponent(made.id)}/documents`, form, (share) => said.at((at + share * part.length) / files.length));
        done += part.length;
      } catch (error) {
        if (!OF_ONE.includes(error.status) || error.error === "DATA_ERROR") throw error; // no room for any of them
        if (part.length > 1) { // together they may be too much, and each alone not
          all.unshift(...part.map((file) => [file]));
          continue;
        }
        failed = error;
      }
      at += part.length;
    }
  } catch (error) {
    failed = error;
  }
  said.end();
  await sent(done, files.length, name, failed?.message);
}

/** What came in, and why the rest did not. */
async function sent(done, n, name, failed) {
  toast(failed ? t("add.some", { done, n, reason: failed === "offline" ? t("offline") : worded(failed) }) : t("add.sent", { n: done, name }));
  if (done) await changed();
  follow({ sent: done > 0 });
}

/** The folder that a file was in, among those that were added together. */
const folderOf = (file) => (file.place ?? file.webkitRelativePath ?? "").split("/").slice(0, -1).join("/");

/** A request each: files of one folder, and not too many. */
function parts(files) {
  const found = [];
  for (const file of [...files].sort((a, b) => (folderOf(a) < folderOf(b) ? -1 : folderOf(a) > folderOf(b) ? 1 : 0))) {
    const last = found.at(-1);
    if (last && last.length < AT_ONCE && folderOf(last[0]) === folderOf(file)) last.push(file);
    else found.push([file]);
  }
  return found;
}

/** The files of a drop, those in folders too. */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files];
  const found = [];
  const walk = async (entry) => {
    if (entry.name.startsWith(".")) return; // nor what is in a hidden folder
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      found.push(Object.assign(file, { place: entry.fullPath.slice(1) }));
    } else {
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (!some.length) break;
        for (const one of some) await walk(one);
      }
    }
  };
  for (const entry of entries) await walk(entry);
  return found;
}

/** Let files be chosen. */
export function picked(attributes, then) {
  const input = h("input", { type: "file", multiple: true, hidden: true, "aria-label": t("add.files"), ...attributes, onchange: () => {
    then([...input.files]);
    input.remove();
  }, oncancel: () => input.remove() });
  document.body.append(input);
  input.click();
}

export const pickFiles = () => picked({}, adding);
export const pickFolder = () => picked({ webkitdirectory: "" }, (files) => adding(files.filter((file) => !/\/\./.test(file.webkitRelativePath))));

export async function addUrls(urls) {
  const said = urls.length > 1 ? toast(t("add.sending.pages", { n: urls.length }), { progress: true }) : null;
  let failed = "";
  let done = 0;
  let name = "";
  try {
    const made = await target();
    name = made.name;
    for (const [at, one] of urls.entries()) {
      await post("/api/v1/ingest/url", { dataset_id: made.id, ...one }).then(() => (done += 1), (error) => (failed = error.message));
      said?.at((at + 1) / urls.length);
    }
  } catch (error) {
    failed = error.message;
  }
  said?.end();
  await sent(done, urls.length, name, failed);
}

export async function loadSample() {
  try {
    await post("/api/v1/sample");
    await follow();
  } catch (error) {
    toast(error.message);
  }
}

/** Stop a job, and look after it until it has ended: by then it may have been too late. */
export async function stop(id) {
  const path = `/api/v1/jobs/${encodeURIComponent(id)}`;
  try {
    let job = await post(`${path}/cancel`);
    await changed();
    while (UNDER_WAY.includes(job.state)) {
      await new Promise((resolve) => setTimeout(resolve, PACE_SECONDS * 1000));
      job = await get(path);
    }
  } catch (error) {
    toast(error.message);
  }
  await changed();
  follow();
}

/** Look after the jobs that are open, until there are none; every change is told. Who sent some hears the end of it. */
export async function follow({ sent = false } = {}) {
  if (!app.get("about")) return;
  [asked, told] = [true, told || sent];
  if (following) return;
  following = true;
  let before = "";
  let meter = null;
  let most = 0;
  let failed = 0;
  try {
    for (;;) {
      asked = false;
      const { jobs, counts } = await get("/api/v1/jobs", { state: OPEN, page_size: 100 });
      away = 0;
      const open = Math.max(jobs.length, OPEN.reduce((sum, name) => sum + (counts[name] || 0), 0));
      const now = JSON.stringify(jobs.map((job) => [job.id, job.state, job.percent]));
      app.set({ jobs });
      const unread = (counts.failed || 0) + (counts.empty || 0);
      lost = Math.min(lost ?? unread, unread); // one that is tried again counts again
      if (open) {
        most = Math.max(most, open);
        meter ??= toast(t("jobs.open", { n: open }), { progress: true });
        meter.say(t("jobs.open", { n: open }));
        meter.at((most - open + (jobs[0]?.percent || 0) / 100) / most);
      }
      if (now !== before) await changed();
      before = now;
      if (!open && asked) {
        before = ""; // what was sent meanwhile may be over as well
        continue;
      }
      if (!open) {
        failed = unread - lost;
        lost = unread;
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, PACE_SECONDS * 1000));
    }
    if (meter) {
      meter.at(1);
      meter.say(failed > 0 ? t("jobs.some", { n: failed }) : t("jobs.done"));
      meter.linger();
      meter = null;
    } else if (failed > 0) toast(t("jobs.some", { n: failed })); // it was over before it was looked at
    else if (told) toast(t("jobs.done"));
  } catch (error) {
    // Who is signed out is asked for a key. A server that went away may come back and go on with what was under way.
    if (error.status !== 401 && (told || app.get("jobs")?.length)) {
      if (!away) toast(error.message);
      clearTimeout(away);
      away = setTimeout(follow, AWAY_SECONDS * 1000, { sent: told });
    }
  } finally {
    meter?.end();
    following = told = false;
  }
}
