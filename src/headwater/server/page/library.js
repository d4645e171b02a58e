// Library: a shelf of documents, what state they are in and what is wrong with them, in words.

import { addUrls, adding, changed, documents, follow, loadSample, onChange, pickBookmarks, pickFiles, pickFolder } from "./adding.js";
import { app, post, put, remove } from "./api.js";
import { t } from "./i18n.js";
import { address, fill, h, memory, settled } from "./kit.js";
import { fault, modal, named, number, percent, state, toast, unprefixed, when } from "./said.js";

const STEP = 100; // rows that are drawn at once
const gone = new Set(); // documents whose removal can still be undone

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
    this.collections = h("nav", { "aria-label": t("library.collections") });
    this.filter = h("input", { type: "search", value: query.q || "", placeholder: t("library.filter"), "aria-label": t("library.filter"), oninput: settled((event) => this.note({ q: event.target.value })) });
    this.shelf = h("div.stack");
    const url = h("input", { type: "url", placeholder: "https://…", "aria-label": t("add.url"), required: true });
    fill(root, h("div.page",
      h("div.row.apart", h("h1", t("place.library")), h("div.row",
        h("button.primary", { onclick: pickFiles }, t("add.files")),
        h("button", { onclick: pickFolder }, t("add.folder")),
        h("button", { onclick: pickBookmarks }, t("add.bookmarks")))),
      h("form.seek", { onsubmit: (event) => (event.preventDefault(), addUrls([{ url: url.value.trim() }]), (url.value = "")) }, url, h("button", { type: "submit" }, t("add.url"))),
      h("div.library", this.collections, h("section.stack", { "aria-label": t("library.documents") }, this.filter, this.shelf))));
  }

  note(changes) {
    this.query = { ...this.query, ...changes };
    address.note(changes);
    return this.load();
  }

  async load() {
    const collection = this.query.collection || "";
    memory.set("library", collection);
    this.drawCollections(collection);
    try {
      this.all = await documents({ collection, keywords: this.query.q || "", size: 1000 });
      this.draw();
    } catch (error) {
      fill(this.shelf, fault(error, () => this.load()));
    }
  }

  drawCollections(chosen) {
    const found = app.get("collections") || [];
    const entry = (name, words, count) => h("li", h("button", { "aria-pressed": String(name === chosen), onclick: () => this.note({ collection: name }) }, h("span.clip", words), h("span.soft", number(count))));
    fill(this.collections, h("ul", entry("", t("collection.all"), found.reduce((sum, one) => sum + one.document_count, 0)), found.map((one) => entry(one.name, one.name, one.document_count))),
      h("div.row", h("button.small.quiet", { onclick: () => this.make() }, t("collection.new")),
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
    this.note({ collection: "" });
    toast(t("collection.deleted", { name: collection.name, n: collection.document_count }), {
      undo: () => this.note({ collection: collection.name }),
      done: async () => {
        await remove("/api/v1/datasets", { ids: [collection.id] }).catch((error) => toast(error.message));
        changed();
      },
    });
  }

  // -------------------------------------------------------------------------------------------- the shelf

  draw(rows = STEP) {
    const all = this.all.filter((one) => !gone.has(one.id));
    for (const id of [...this.picked]) if (!all.some((one) => one.id === id)) this.picked.delete(id);
    const nothing = !all.length && !this.query.q && !this.query.collection;
    this.filter.hidden = nothing;
    if (!all.length) return fill(this.shelf, this.emptyState());
    const head = ["title", "kind", "collection", "when", "state", "coverage"].map((name) => h("th", { scope: "col" }, t(`column.${name}`)));
    fill(this.shelf, this.bulk(), h("div.scroll", { tabindex: 0, role: "region", "aria-label": t("library.documents") },
      h("table.shelf.cards", h("thead", h("tr", h("th", { scope: "col" }, h("span.unseen", t("library.pick"))), head, h("th", { scope: "col" }, h("span.unseen", t("library.actions"))))),
        h("tbody", all.slice(0, rows).map((one) => this.row(one))))),
      h("p.soft.fine", t("library.count", { shown: Math.min(rows, all.length), n: number(this.all.total) }), " ",
        all.length > rows ? h("button.small", { onclick: () => this.draw(rows + STEP) }, t("more")) : null));
    this.progress();
  }

  emptyState() {
    const filtered = this.query.q || this.query.collection;
    return h("div.empty", h("h2", t(filtered ? "library.none" : "library.empty")), h("p.lead", t("library.drop")),
      h("div.row", h("button.primary", { onclick: pickFiles }, t("add.files")), filtered ? null : h("button", { onclick: loadSample }, t("empty.sample"))));
  }

  bulk() {
    const chosen = () => this.all.filter((one) => this.picked.has(one.id));
    const bar = h("div.row", { hidden: !this.picked.size });
    fill(bar, h("span", t("library.picked", { n: this.picked.size })),
      h("button.small", { onclick: () => this.again(chosen()) }, t("reindex")),
      h("button.small", { onclick: () => this.archive(chosen(), true) }, t("archive")),
      h("button.small.danger", { onclick: () => this.remove(chosen()) }, t("delete")));
    this.bulkBar = bar;
    return bar;
  }

  row(one) {
    const problems = one.error ? [one.error] : one.problems;
    const score = one.coverage?.score;
    const act = (name, work, danger) => h("button.small.quiet", { class: danger ? "danger" : "", onclick: work, "aria-label": t(`${name}.of`, { title: named(one) }) }, t(name));
    const acts = h("td.acts", one.own ? h("details.menu", h("summary", { "aria-label": `${t("library.actions")}: ${named(one)}` }, "⋯"),
      h("div", act("reindex", () => this.again([one])), act(one.archived ? "unarchive" : "archive", () => this.archive([one], !one.archived)), act("delete", () => this.remove([one]), true))) : h("span.tag", t("library.shared")));
    return h("tr", { data: { id: one.id } },
      h("td", one.own ? h("input", { type: "checkbox", checked: this.picked.has(one.id), "aria-label": t("library.pick.of", { title: named(one) }), onchange: (event) => this.pick(one.id, event.target.checked) }) : null),
      h("td.name", h("a", { href: address.to("document", [one.id]) }, named(one)),
        one.name !== named(one) ? h("div.soft.fine", one.name) : null,
        problems.slice(0, 3).map((words) => h("div.problems", { class: one.state === "failed" ? "poor" : "" }, unprefixed(words))),
        h("div.at")),
      h("td", { data: { label: t("column.kind") } }, kindOf(one)),
      h("td", { data: { label: t("column.collection") } }, one.collection),
      h("td.when", { data: { label: t("column.when") } }, when(one.updated || one.created, { time: false })),
      h("td", one.archived ? h("span.state", { data: { sign: "▫" } }, t("state.archived")) : state(one.state)),
      h("td.when", { data: { label: t("column.coverage") } }, score === undefined ? "" : t("coverage.words", { share: percent(score), n: one.chunk_count })),
      acts);
  }

  pick(id, on) {
    if (on) this.picked.add(id);
    else this.picked.delete(id);
    this.bulkBar.replaceWith(this.bulk());
  }

  /** Where each job stands, under the title of its document. */
  progress() {
    const jobs = new Map((app.get("jobs") || []).map((job) => [job.document_id, job]));
    for (const row of this.shelf.querySelectorAll("tr[data-id]")) {
      const job = jobs.get(row.dataset.id);
      const words = job && (t.has(`stage.${job.stage}`) ? t(`stage.${job.stage}`) : t(`state.${job.state}`));
      fill(row.querySelector(".at"), job ? [h("progress", { max: 100, value: job.percent, "aria-label": words }), h("span.soft.fine", words)] : null);
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
    await this.each(chosen, (one) => post(`/api/v1/documents/${encodeURIComponent(one.id)}/reindex`));
  }

  async archive(chosen, archived) {
    const mark = (to) => this.each(chosen, (one) => put(`/api/v1/datasets/${encodeURIComponent(one.dataset_id)}/documents/${encodeURIComponent(one.id)}`, { archived: to }));
    await mark(archived);
    toast(t(archived ? "archived" : "unarchived", { n: chosen.length }), { undo: () => mark(!archived) });
  }

  /** Out of sight at once, and really gone when nobody took it back. */
  remove(chosen) {
    for (const one of chosen) gone.add(one.id);
    this.picked.clear();
    this.draw();
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
