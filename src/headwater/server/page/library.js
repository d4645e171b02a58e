// Library: a shelf of documents, what state they are in and what is wrong with them, in words.

import { UNDER_WAY, addUrls, adding, changed, documents, follow, loadSample, onChange, pickFiles, pickFolder, stop } from "./adding.js";
import { app, may, post, put, remove } from "./api.js";
import { pickBookmarks } from "./bookmarks.js";
import { t, worded } from "./i18n.js";
import { add, address, arrows, fill, h, keyed, memory, settled } from "./kit.js";
import { fault, modal, named, number, percent, state, toast, unprefixed, when } from "./said.js";

const STEP = 100; // rows that are drawn at once
const AWAY = 8; // pixels that a row may move under its open menu
const FETCHED = 1000; // documents of a collection that come with one answer
const gone = new Set(); // documents and collections whose removal can still be undone

export async function show(root, { query }) {
  const view = new Library(root, query);
  await view.load();
  const unwatch = onChange(() => view.load());
  const unwatchJobs = app.watch((_, names) => names.includes("jobs") && view.progress());
  return {
    leave: () => (unwatch(), unwatchJobs()),
    changed: (now) => ((view.query = now), view.load()),
    keys: { ask: () => view.filter.focus(), next: () => view.walk(1), previous: () => view.walk(-1) },
  };
}

class Library {
  constructor(root, query) {
    this.query = query;
    this.picked = new Set();
    this.rows = STEP;
    this.pages = 1;
    this.collections = h("nav", { "aria-label": t("library.collections") });
    this.filter = h("input", { type: "search", value: query.q || "", placeholder: t("library.filter"), "aria-label": t("library.filter"), oninput: settled((event) => this.note({ q: event.target.value })) });
    const head = ["title", "kind", "collection", "when", "state", "coverage"].map((name) => h("th", { scope: "col" }, t(`column.${name}`)));
    this.body = h("tbody");
    this.bulk = h("div.row", { hidden: true });
    this.table = h("div.scroll", { tabindex: 0, role: "region", "aria-label": t("library.documents") },
      h("table.shelf.cards.picks", h("thead", h("tr", h("th", { scope: "col" }, h("span.unseen", t("library.pick"))), head, h("th", { scope: "col" }, h("span.unseen", t("library.actions"))))), this.body));
    this.count = h("p.soft.fine");
    this.none = h("div");
    this.shelf = h("div.stack", this.bulk, this.table, this.count, this.none);
    // One for all rows and beside them: it stays where it is while the list goes on.
    this.menu = arrows(h("div.menu", { popover: "auto", ontoggle: (event) => this.toggled(event) }));
    const url = h("input", { type: "url", placeholder: "https://…", "aria-label": t("add.url"), required: true });
    fill(root, h("div.page",
      h("div.row.apart", h("h1", t("place.library")), may("write") ? h("div.row",
        h("button.primary", { onclick: pickFiles }, t("add.files")),
        h("button", { onclick: pickFolder }, t("add.folder")),
        h("button", { onclick: pickBookmarks }, t("add.bookmarks"))) : h("span.soft.fine", t("library.reader"))),
      !may("write") ? null : h("form.seek", { onsubmit: (event) => (event.preventDefault(), addUrls([{ url: url.value.trim() }]), (url.value = "")) }, url, h("button", { type: "submit" }, t("add.url"))),
      h("div.library", this.collections, h("div.stack", this.filter, this.shelf)), this.menu));
  }

  note(changes) {
    this.query = { ...this.query, ...changes };
    address.note(changes);
    return this.load();
  }

  async load() {
    const collection = this.query.collection || "";
    const ticket = (this.ticket = Symbol("load"));
    memory.set("library", collection);
    this.drawCollections(collection);
    try {
      const all = await documents({ collection, keywords: this.query.q || "", size: FETCHED, pages: this.pages });
      if (this.ticket !== ticket) return;
      this.all = all;
      this.draw();
    } catch (error) {
      if (this.ticket === ticket) fill(this.none, fault(error, () => this.load()));
    }
  }

  drawCollections(chosen) {
    const found = (app.get("collections") || []).filter((one) => !gone.has(one.id));
    const entry = (name, words, count) => h("li", h("button", { "aria-pressed": String(name === chosen), onclick: () => this.note({ collection: name }) }, h("span.clip", words), h("span.soft", number(count))));
    fill(this.collections, h("ul", entry("", t("collection.all"), found.reduce((sum, one) => sum + one.document_count, 0)), found.map((one) => entry(one.name, one.name, one.document_count))),
      !may("write") ? null : h("div.row", h("button.small.quiet", { onclick: () => this.make() }, t("collection.new")),
        chosen ? h("button.small.quiet.danger", { onclick: () => this.drop(found.find((one) => one.name === chosen)) }, t("collection.delete")) : null));
  }

  make() {
    const name = h("input", { required: true, maxlength: 128, "aria-label": t("collection.name") });
    modal(t("collection.new"), (close) => h("form.stack", { onsubmit: async (event) => {
      event.preventDefault();
      try {
        await post("/api/v1/datasets", { name: name.value.trim() });
        close();
        await changed();
        this.note({ collection: name.value.trim() });
      } catch (error) {
        toast(error.message);
      }
    } }, h("label.field", h("span.label", t("collection.name")), name), h("div.row", h("button.primary", { type: "submit" }, t("collection.make")))));
    name.focus();
  }

  drop(collection) {
    gone.add(collection.id);
    this.note({ collection: "" });
    toast(t("collection.deleted", { name: collection.name, n: collection.document_count }), {
      undo: () => (gone.delete(collection.id), this.note({ collection: collection.name })),
      done: async () => {
        await remove("/api/v1/datasets", { ids: [collection.id] }).catch((error) => toast(error.message));
        await changed();
        gone.delete(collection.id);
      },
    });
  }

  // -------------------------------------------------------------------------------------------- the shelf

  /** Only what changed is drawn anew: a row that is looked at, chosen or gone through stays the one it was. */
  draw() {
    const all = this.all.filter((one) => !gone.has(one.id) && !gone.has(one.dataset_id));
    const left = this.all.total - (this.all.length - all.length);
    const known = new Set(all.map((one) => one.id));
    for (const id of [...this.picked]) if (!known.has(id)) this.picked.delete(id);
    this.filter.hidden = !all.length && !this.query.q && !this.query.collection;
    this.table.hidden = this.count.hidden = !all.length;
    keyed(this.body, all.slice(0, this.rows).map((one) => [one.id, JSON.stringify({ ...one, progress: 0 }), () => this.row(one)]));
    for (const box of this.body.querySelectorAll("input")) box.checked = this.picked.has(box.value);
    fill(this.none, all.length ? null : this.emptyState());
    fill(this.count, t("library.count", { shown: number(Math.min(this.rows, all.length)), n: number(left) }), " ",
      left > this.rows ? h("button.small", { onclick: () => this.more() }, t("more")) : null);
    this.drawBulk();
    this.progress();
    this.beside(); // its row may have come to stand elsewhere
  }

  more() {
    this.rows += STEP;
    if (this.rows <= this.all.length || this.all.length >= this.all.total) return this.draw();
    this.pages += 1;
    return this.load();
  }

  emptyState() {
    const filtered = this.query.q || this.query.collection;
    if (!may("write")) return h("div.empty", h("h2", t(filtered ? "library.none" : "library.empty")));
    return h("div.empty", h("h2", t(filtered ? "library.none" : "library.empty")), h("p.lead", t("library.drop")),
      h("div.row", h("button.primary", { onclick: pickFiles }, t("add.files")), filtered ? null : h("button", { onclick: loadSample }, t("empty.sample"))));
  }

  drawBulk() {
    const chosen = () => this.all.filter((one) => this.picked.has(one.id));
    this.bulk.hidden = !this.picked.size;
    fill(this.bulk, h("span", t("library.picked", { n: this.picked.size })),
      h("button.small", { onclick: () => this.again(chosen()) }, t("reindex")),
      h("button.small", { onclick: () => this.archive(chosen(), true) }, t("archive")),
      h("button.small.danger", { onclick: () => this.remove(chosen()) }, t("delete")));
  }

  /** What can be done with a document, beside the button that was pressed. */
  acts(one, button) {
    const act = (name, work, danger) => h("button.small.quiet", { class: danger ? "danger" : "", onclick: () => (this.menu.hidePopover(), work()), "aria-label": t(`${name}.of`, { title: named(one) }) }, t(name));
    fill(this.menu, h("p.soft.fine.clip", named(one)), one.job_id && UNDER_WAY.includes(one.state) ? act("stop", () => stop(one.job_id)) : act("reindex", () => this.again([one])), isPromise(one) ? null : act(one.archived ? "unarchive" : "archive", () => this.archive([one], !one.archived)), act("delete", () => this.remove([one]), true));
    this.menu.showPopover();
    this.opener = one.id;
    this.beside();
    button.setAttribute("aria-expanded", "true");
    this.menu.querySelector("button").focus({ preventScroll: true });
    this.scrolled = () => Math.abs((this.dots()?.getBoundingClientRect().top ?? 0) - this.at) > AWAY && this.menu.hidePopover();
    addEventListener("scroll", this.scrolled, { capture: true }); // it does not hang over another row
  }

  /** Under the button of its row, or above it where there is no room. */
  beside() {
    const button = this.dots()?.getBoundingClientRect();
    if (!button || !this.menu.matches(":popover-open")) return;
    const { width, height } = this.menu.getBoundingClientRect();
    const under = button.bottom + 4 + height < innerHeight;
    this.menu.style.left = `${Math.max(8, button.right - width)}px`;
    this.menu.style.top = `${Math.max(8, under ? button.bottom + 4 : button.top - 4 - height)}px`;
    this.at = button.top;
  }

  /** The button of the row whose menu it is, which may be another one by now. */
  dots() {
    return this.body.querySelector(`[data-key="${CSS.escape(this.opener)}"] .dots`);
  }

  toggled(event) {
    if (event.newState !== "closed") return;
    removeEventListener("scroll", this.scrolled, { capture: true });
    this.dots()?.setAttribute("aria-expanded", "false");
    if (document.activeElement === document.body) this.dots()?.focus({ preventScroll: true });
  }

  row(one) {
    const problems = one.error ? [one.error] : one.problems;
    const score = one.coverage?.score;
    const own = one.own && may("write");
    const acts = h("td.acts", own ? h("button.small.quiet.dots", { "aria-label": `${t("library.actions")}: ${named(one)}`, "aria-haspopup": "true", "aria-expanded": "false", onclick: (event) => this.acts(one, event.currentTarget) }, "⋯") : one.own ? null : h("span.tag", t("library.shared")));
    return h("tr",
      h("td", own ? h("input", { type: "checkbox", value: one.id, "aria-label": t("library.pick.of", { title: named(one) }), onchange: (event) => this.pick(one.id, event.target.checked) }) : null),
      h("td.name", isPromise(one) ? h("span", named(one)) : h("a", { href: address.to("document", [one.id]) }, named(one)),
        one.name !== named(one) ? h("div.soft.fine", one.name) : null,
        problems.slice(0, 3).map((words) => h("div.problems", { class: one.state === "failed" ? "poor" : "" }, worded(unprefixed(words)))),
        h("div.at")),
      h("td", { data: { label: t("column.kind") } }, kindOf(one)),
      h("td", { data: { label: t("column.collection") } }, one.collection),
      h("td.when", { data: { label: t("column.when") } }, when(one.updated || one.created, { time: false })),
      h("td.stated", one.archived ? h("span.state", { data: { sign: "▫" } }, t("state.archived")) : state(one.state)),
      h("td.when", { data: { label: t("column.coverage") } }, score === undefined ? "" : t("coverage.words", { share: percent(score), n: one.chunk_count })),
      acts);
  }

  pick(id, on) {
    if (on) this.picked.add(id);
    else this.picked.delete(id);
    this.drawBulk();
  }

  /** Where each job stands, under the title of its document. */
  progress() {
    const jobs = new Map((app.get("jobs") || []).map((job) => [job.document_id, job]));
    for (const row of this.body.children) {
      const job = jobs.get(row.dataset.key);
      const words = job && (t.has(`stage.${job.stage}`) ? t(`stage.${job.stage}`) : t(`state.${job.state}`));
      const at = row.querySelector(".at");
      if (!job) at.replaceChildren();
      else if (!at.firstChild) add(at, h("progress", { max: 100, "aria-label": words }), h("span.soft.fine"), h("button.small.quiet", { onclick: (event) => stop(event.currentTarget.dataset.job), "aria-label": t("stop.of", { title: named(job) }) }, t("stop")));
      if (!job) continue;
      const [bar, said, button] = at.children;
      [bar.value, said.textContent] = [job.percent, job.stopping ? t("state.stopping") : words];
      [button.dataset.job, button.disabled] = [job.id, job.stopping];
    }
  }

  async each(chosen, work) {
    try {
      for (const one of chosen) await work(one);
    } catch (error) {
      toast(error.message);
    }
    this.picked.clear();
    await changed();
    follow();
  }

  async again(chosen) {
    toast(t("document.reindexing", { title: chosen.length === 1 ? named(chosen[0]) : t("documents.n", { n: chosen.length }) }));
    await this.each(chosen, (one) => post(isPromise(one) && one.job_id ? `/api/v1/jobs/${encodeURIComponent(one.job_id)}/retry` : `/api/v1/documents/${encodeURIComponent(one.id)}/reindex`));
    follow({ sent: true }); // that it is over is said
  }

  async archive(chosen, archived) {
    const mark = (to) => this.each(chosen, (one) => put(`/api/v1/datasets/${encodeURIComponent(one.dataset_id)}/documents/${encodeURIComponent(one.id)}`, { archived: to }));
    await mark(archived);
    toast(t(archived ? "archived" : "unarchived", { n: chosen.length }), { undo: () => mark(!archived) });
  }

  /** Out of sight at once, and really gone when nobody took it back. */
  remove(chosen) {
    const place = [...this.body.children].findIndex((row) => row.dataset.key === chosen[0].id);
    for (const one of chosen) gone.add(one.id);
    this.picked.clear();
    this.draw();
    if (document.activeElement === document.body) (this.body.children[place]?.querySelector("a") ?? this.filter).focus(); // on with the next
    const back = () => {
      for (const one of chosen) gone.delete(one.id);
      this.draw();
    };
    toast(t("deleted", { title: chosen.length === 1 ? named(chosen[0]) : t("documents.n", { n: chosen.length }) }), {
      undo: back,
      done: async () => {
        const byDataset = Map.groupBy ? Map.groupBy(chosen, (one) => one.dataset_id) : grouped(chosen);
        try {
          for (const [id, ones] of byDataset) await remove(`/api/v1/datasets/${encodeURIComponent(id)}/documents`, { ids: ones.map((one) => one.id) });
        } catch (error) {
          back();
          toast(error.message);
        }
        await changed();
        for (const one of chosen) gone.delete(one.id);
      },
    });
  }

  walk(step) {
    const all = [...this.shelf.querySelectorAll("td.name a")];
    const at = all.indexOf(document.activeElement);
    all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))]?.focus();
  }
}

/** One that was asked for and never came in: there is nothing to open yet, and to read it again is to try again. */
const isPromise = (one) => !one.chunk_count && (["pending", "processing"].includes(one.state) || !one.mime);

function grouped(all) {
  const found = new Map();
  for (const one of all) found.set(one.dataset_id, [...(found.get(one.dataset_id) || []), one]);
  return found;
}

const KINDS = { "text/html": "HTML", "application/pdf": "PDF", "text/markdown": "Markdown", "text/plain": "Text", "message/rfc822": "Mail", "text/csv": "CSV" };

function kindOf(one) {
  const suffix = /\.([A-Za-z0-9]{1,5})$/.exec(one.name || "")?.[1];
  return (one.state !== "failed" && KINDS[one.mime]) || (suffix ? suffix.toUpperCase() : "");
}
