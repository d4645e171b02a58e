// System: what is under way, who has keys, where each setting comes from, and how much room there is.

import { UNDER_WAY, changed, follow, onChange, stop } from "./adding.js";
import { app, get, may, post, remove } from "./api.js";
import { t, worded } from "./i18n.js";
import { fill, h, memory } from "./kit.js";
import { bytes, fault, meter, milliseconds, number, state, toast, unprefixed, when } from "./said.js";

const JOBS = 12; // that are shown at first
const MOST_JOBS = 1000;

export async function show(root) {
  const parts = { figures: h("section.card"), jobs: h("section.card"), keys: h("section.card"), room: h("section.card"), settings: h("section.card") };
  const who = memory.get("key") ? h("div.row", h("span.soft", t("signin.as", { owner: app.get("about")?.owner ?? "" })), h("button.small", { onclick: signOut }, t("signin.out"))) : null;
  fill(root, h("div.page", h("div.row.apart", h("h1", t("place.system")), who), may("admin") ? null : h("p.soft", t("system.admin")), Object.values(parts)));
  const draw = may("admin") ? { figures: (node) => system(node, parts.room), jobs, keys, settings } : { jobs };
  const load = (name) => draw[name](parts[name]).catch((error) => fill(parts[name], h("h2", t(`system.${name}`)), fault(error, () => load(name))));
  await Promise.all(Object.keys(draw).map(load));
  const unwatch = [onChange(() => Object.keys(draw).filter((name) => ["jobs", "figures"].includes(name)).forEach(load)), app.watch((_, names) => names.includes("jobs") && load("jobs"))];
  return { leave: () => unwatch.forEach((stop) => stop()) };
}

/** Forget the key in this browser. */
function signOut() {
  memory.set("key", "");
  location.reload();
}

async function system(node, room) {
  const told = await get("/api/v1/system");
  const figure = (label, value) => h("div.figure", h("span.soft.fine", label), h("b", value));
  fill(node, h("h2", t("system.figures")), h("div.figures",
    figure(t("system.documents"), number(told.counts.documents)), figure(t("system.chunks"), number(told.counts.chunks)),
    figure(t("system.searches"), number(told.searches.count)), figure(t("system.p50"), told.searches.p50_ms ? `≤ ${milliseconds(told.searches.p50_ms)}` : "–"),
    figure(t("system.p95"), told.searches.p95_ms ? `≤ ${milliseconds(told.searches.p95_ms)}` : "–"), figure(t("system.uptime"), uptime(told.uptime_seconds))));
  const { disk, memory } = told;
  const most = Math.max(1, ...Object.values(disk.parts));
  fill(room, h("h2", t("system.room")),
    meter(t("system.disk"), 1 - disk.free / disk.total, t("system.free", { free: bytes(disk.free), total: bytes(disk.total) })),
    memory.resident ? meter(t("system.memory"), memory.resident / memory.total, t("system.used", { used: bytes(memory.resident), total: bytes(memory.total) })) : null,
    h("h3", t("system.parts")), h("div.stack", Object.entries(disk.parts).slice(0, 10).map(([name, size]) => meter(name, size / most, bytes(size)))));
}

const origin = (one) => h("span", { title: one.origin }, one.origin.replace(/^.*\/(?=[^/]+$)/, "")); // a file by its name
const plain = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value).replaceAll('"', "") : value === "" || value === null ? "–" : String(value));
const uptime = (seconds) => (seconds < 3600 ? t("system.minutes", { n: Math.max(1, Math.round(seconds / 60)) }) : seconds < 172800 ? t("system.hours", { n: Math.round(seconds / 3600) }) : t("system.days", { n: Math.round(seconds / 86400) }));

async function jobs(node) {
  const size = Number(node.dataset.size || JOBS);
  const { jobs: all, counts } = await get("/api/v1/jobs", { page_size: size });
  const at = (moment) => new Date(moment).getTime();
  const first = Math.min(...all.map((job) => at(job.created)));
  const span = Math.max(1000, Math.max(...all.map((job) => at(job.updated))) - first);
  const share = (milliseconds) => `${(milliseconds / span) * 100}%`;
  const lane = (job) => h("div.lane", { "aria-hidden": "true" }, h("i", { vars: { left: share(at(job.created) - first), width: share(at(job.updated) - at(job.created)) } }));
  const act = async (job, verb) => {
    try {
      await post(`/api/v1/jobs/${encodeURIComponent(job.id)}/${verb}`);
      follow();
    } catch (error) {
      toast(error.message);
    }
    await jobs(node);
  };
  const name = (job) => unprefixed(job.title || job.uri);
  fill(node, h("h2", t("system.jobs")), h("p.soft.fine", Object.entries(counts).map(([one, count]) => `${t(`state.${one}`)} ${number(count)}`).join(" · ")),
    all.length ? h("ol.timeline", all.map((job) => h("li", h("span.soft.fine", t("system.job.took", { when: when(job.updated), n: Math.round((at(job.updated) - at(job.created)) / 1000) })),
      h("span.wrap", name(job), " ", h("span.soft.fine", [name(job) === unprefixed(job.uri) ? "" : unprefixed(job.uri), job.collection].filter(Boolean).join(" · ")), job.reason ? h("div.problems", worded(unprefixed(job.reason))) : null),
      h("span.row", state(job.stopping ? "stopping" : job.state),
        ["failed", "empty", "cancelled"].includes(job.state) && may("write") ? h("button.small", { onclick: () => act(job, "retry"), "aria-label": `${t("retry")}: ${name(job)}` }, t("retry")) : null,
        UNDER_WAY.includes(job.state) && !job.stopping && may("write") ? h("button.small", { onclick: () => stop(job.id), "aria-label": `${t("stop")}: ${name(job)}` }, t("stop")) : null),
      ["processing", "pending"].includes(job.state) ? h("progress", { max: 100, value: job.percent, "aria-label": name(job) }) : lane(job)))) : h("p.soft", t("system.no.jobs")),
    all.length === size && size < MOST_JOBS ? h("div.row", h("button.small", { onclick: () => ((node.dataset.size = Math.min(MOST_JOBS, size * 4)), jobs(node)) }, t("more"))) : null);
}

async function keys(node) {
  const { keys: all, needs_key: needed } = await get("/api/v1/keys");
  const shown = node.querySelector(".made") ?? h("div.made"); // a key that was just made can still be copied
  const labelled = (column, value) => h("td", { data: { label: t(`keys.${column}`) } }, value);
  const field = (label, input) => h("label.field", h("span.label", label), input);
  const owner = h("input", { required: true, value: app.get("about")?.owner || "local", maxlength: 200 });
  const name = h("input", { maxlength: 200 });
  const rights = h("select", ["read", "write", "admin"].map((one) => h("option", { value: one, selected: one === (all.length ? "read" : "admin") }, t(`rights.${one}`))));
  const make = async (event) => {
    event.preventDefault();
    try {
      const made = await post("/api/v1/keys", { owner: owner.value, name: name.value, rights: rights.value });
      shown.className = "note made";
      fill(shown, h("p", { role: "status" }, t("keys.once")), h("code.wrap", made.key));
      if (!needed) { // it closes the server for everybody else, not for who made it
        memory.set("key", made.key);
        await changed();
      }
      await keys(node);
    } catch (error) {
      toast(error.message);
    }
  };
  const revoke = (key, button) => {
    button.disabled = true;
    toast(t("keys.revoked", { name: key.name || key.owner }), { undo: () => (button.disabled = false), done: async () => {
      await remove(`/api/v1/keys/${encodeURIComponent(key.id)}`).catch((error) => toast(error.message));
      keys(node).catch(() => null);
    } });
  };
  fill(node, h("h2", t("system.keys")), h("p.soft", t(needed ? "keys.needed" : "keys.open")), shown,
    all.length ? h("div.scroll", { tabindex: 0, role: "region", "aria-label": t("system.keys") }, h("table.shelf.cards", h("thead", h("tr", ["name", "owner", "rights", "collections", "used", "state"].map((one) => h("th", { scope: "col" }, t(`keys.${one}`))))),
      h("tbody", all.map((key) => h("tr", h("th", { scope: "row" }, key.name || "–"), labelled("owner", key.owner), labelled("rights", t(`rights.${key.rights}`)), labelled("collections", key.collections.join(", ") || t("collection.all")), labelled("used", when(key.used) || t("keys.never")),
        h("td", key.revoked ? t("keys.is.revoked") : h("button.small.danger", { onclick: (event) => revoke(key, event.target), "aria-label": `${t("keys.revoke")}: ${key.name || key.owner}` }, t("keys.revoke")))))))) : null,
    h("details", h("summary", t("keys.make")), h("form.stack", { onsubmit: make }, field(t("keys.owner"), owner), field(t("keys.name"), name), field(t("keys.rights"), rights), h("div.row", h("button.primary", { type: "submit" }, t("keys.make"))))));
}

async function settings(node) {
  const all = await get("/api/v1/settings");
  const rows = h("tbody");
  const whole = h("details");
  const draw = (wanted = "") => fill(rows, Object.entries(all).filter(([name]) => name.includes(wanted)).map(([name, one]) => h("tr", h("td", h("code", name)), h("td.wrap", plain(one.value)), h("td", one.origin === "default" ? h("span.soft", t("settings.default")) : h("b", origin(one))))));
  draw();
  fill(node, h("h2", t("system.settings")), h("p.soft.fine", t("settings.lead")),
    h("input", { type: "search", placeholder: t("settings.filter"), "aria-label": t("settings.filter"), oninput: (event) => {
      draw(event.target.value.trim());
      whole.open = true;
    } }),
    fill(whole, h("summary", t("settings.all", { n: Object.keys(all).length })), h("div.scroll", { tabindex: 0, role: "region", "aria-label": t("system.settings") }, h("table.shelf", h("thead", h("tr", ["name", "value", "origin"].map((one) => h("th", { scope: "col" }, t(`settings.${one}`))))), rows))),
    h("div.scroll", { tabindex: 0, role: "region", "aria-label": t("settings.changed") }, h("h3", t("settings.changed")), h("table.shelf", h("tbody", Object.entries(all).filter(([, one]) => one.origin !== "default").map(([name, one]) => h("tr", h("th", { scope: "row" }, h("code", name)), h("td.wrap", plain(one.value)), h("td", origin(one))))))));
}
