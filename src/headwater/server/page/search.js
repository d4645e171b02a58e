// Search: what retrieval does, stage by stage; two settings side by side; and why something is there or is not.

import { app, post } from "./api.js";
import { documents } from "./adding.js";
import { sourcePane } from "./source.js";
import { t, worded } from "./i18n.js";
import { address, fill, h, reveal } from "./kit.js";
import { examples, fault, meter, milliseconds, modal, named, number, place, toast } from "./said.js";
import { rendered } from "./text.js";

const MODES = ["hybrid", "keyword", "semantic", "substring"];
const STAGES = ["keyword", "semantic", "fused", "rerank"]; // the same order everywhere
// The same colour for the same stage everywhere; what is not named has the last.
const TONES = { refresh: "#5b6b7a", refresh_vectors: "#7b7a70", keyword: "#b4690e", embed: "#7a5ea8", semantic: "#1f6f8b", fuse: "#a3342c", locate: "#8a7a2f", read: "#8a7a2f", rerank: "#3b7d4f", highlight: "#94527d", cache: "#4a5fb0" };
const OTHER_TONE = "#2f7f7f";
const tone = (name) => TONES[name] || OTHER_TONE;
const KINDS = ["prose", "table", "code", "caption", "note", "quote", "image"];

export async function show(root, { query }) {
  const view = new Search(root, query);
  await view.begin();
  return {
    leave: () => (view.sizes.disconnect(), view.pane?.leave?.()),
    changed: (now) => view.changed(now),
    keys: { ask: () => view.question.focus(), next: () => view.walk(1), previous: () => view.walk(-1), close: () => view.close() },
  };
}

class Search {
  constructor(root, query) {
    this.query = query;
    this.question = h("input", { type: "search", value: query.q || "", placeholder: t("search.placeholder"), "aria-label": t("search.placeholder"), autocomplete: "off" });
    this.results = h("section.stack.results", { "aria-label": t("search.results") });
    this.told = h("p.unseen", { role: "status" }); // in short; the whole list would be read out otherwise
    this.folded = new Map(); // parts of the panel that somebody opened or closed
    this.panel = h("aside.panel", { "aria-label": t("search.settings") });
    this.aside = h("aside.source", { hidden: true, "aria-label": t("source.title") });
    this.form = h("form.seek", { role: "search", onsubmit: (event) => (event.preventDefault(), this.note({ q: this.question.value.trim() })) },
      this.question, h("button.primary", { type: "submit" }, t("search.do")));
    // In the order in which they are gone through, on a wide screen and on a small one.
    this.frame = h("div.page.search", this.form, this.panel, this.results, this.aside, this.told);
    fill(root, this.frame);
    this.sizes = new ResizeObserver(() => (this.clipped(), this.lines?.()));
    this.sizes.observe(this.results);
  }

  async begin() {
    this.draw();
    if (this.query.q) await this.run();
    else {
      const about = app.get("about");
      fill(this.results, h("div.empty", h("h1", t("search.title")), h("p.lead", t("search.lead")),
        !about?.documents ? [h("p.soft", t("search.empty")), h("div.row", h("a.button", { href: address.to("library") }, t("place.library")))]
          : about.examples?.length ? h("div.try", h("p.soft.fine", t("ask.try")), examples(about).map((one) => h("button", { lang: one.language, onclick: () => this.note({ q: one.text }) }, one.text))) : null));
      if (matchMedia("(min-width: 861px)").matches && !document.activeElement?.closest(".tools, .panel, dialog")) this.question.focus();
    }
  }

  changed(query) {
    if (query.q !== this.query.q) { // a source of other hits would hide these on a small screen
      this.returnTo = null;
      this.close();
    }
    this.query = query;
    this.question.value = query.q || "";
    return this.begin();
  }

  /** The address holds the search: changing it runs it. */
  note(changes) {
    const next = address.to("search", [], { ...this.query, ...changes });
    if (next === location.hash) this.run();
    else location.hash = next;
  }

  // -------------------------------------------------------------------------------------------- settings

  draw() {
    const about = app.get("about");
    const q = this.query;
    const compare = q.compare === "1";
    const pick = (name, label, choices, fallback = "") => h("label.field", h("span.label", label),
      h("select", { onchange: (event) => this.note({ [name]: event.target.value === fallback ? "" : event.target.value }) },
        choices.map(([value, words]) => h("option", { value, selected: value === (q[name] || fallback) }, words))));
    const modes = (name) => h("div.field", h("span.label", { id: `${name}-label` }, t("search.mode")),
      h("div.choice.square", { role: "group", "aria-labelledby": `${name}-label` }, MODES.map((mode) => h("button.small", {
        "aria-pressed": String((q[name] || "") === mode), onclick: () => this.note({ [name]: q[name] === mode ? "" : mode }),
      }, t(`mode.${mode}`)))));
    const presets = [["", t("search.preset.own")], ...(about?.presets || []).map((one) => [one.name, one.name])];
    const settings = (side) => {
      const as = (name) => name + side;
      const weight = Number(q[as("weight")] || 0);
      const shown = h("output", weight ? said(weight) : t("search.weight.auto"));
      return [
        pick(as("preset"), t("search.preset"), presets),
        modes(as("mode")),
        h("label.field", h("span.row.apart.label", t("search.weight"), shown),
          h("input", { type: "range", min: 0, max: 100, step: 5, value: weight || 50, "aria-label": t("search.weight"),
            oninput: (event) => (shown.textContent = said(event.target.value)),
            onchange: (event) => this.note({ [as("weight")]: event.target.value }) }),
          h("span.row.apart.fine.soft", h("span", t("mode.semantic")), h("span", t("mode.keyword")))),
        weight ? h("button.small.quiet", { onclick: () => this.note({ [as("weight")]: "" }) }, t("search.weight.reset")) : null,
        pick(as("rerank"), t("search.rerank"), [["", t("as.preset")], ["off", t("off")], ["builtin", t("search.rerank.builtin")]]),
      ];
    };
    const text = (name, label, type = "text") => h("label.field", h("span.label", label),
      h("input", { type, value: q[name] || "", autocomplete: "off", onchange: (event) => this.note({ [name]: event.target.value.trim() }) }));
    const collections = (app.get("collections") || []).map((one) => [one.name, one.name]);
    const wide = matchMedia("(min-width: 861px)").matches;
    const part = (name, title, ...content) => h("details", { open: this.folded.get(name) ?? wide, ontoggle: (event) => event.target.isConnected && this.folded.set(name, event.target.open) },
      h("summary", title), h("div.stack", content));
    fill(this.panel,
      h("label.tick", h("input", { type: "checkbox", checked: compare, onchange: (event) => this.note({ compare: event.target.checked ? "1" : "" }) }), t("search.compare")),
      part("A", compare ? t("search.side", { side: "A" }) : t("search.settings"), settings(""), pick("top", t("search.top"), ["5", "8", "20", "50"].map((one) => [one, one]), "8")),
      compare ? part("B", t("search.side", { side: "B" }), settings("2")) : null,
      part("filters", t("search.filters"),
        collections.length > 1 ? pick("collection", t("collection"), [["", t("collection.all")], ...collections]) : null,
        text("tag", t("filter.tag")), text("folder", t("filter.folder")), text("title", t("filter.title")),
        pick("kind", t("filter.kind"), [["", t("any")], ...KINDS.map((kind) => [kind, t(`kind.${kind}`)])]),
        text("since", t("filter.since"), "date"), text("until", t("filter.until"), "date"),
        text("where", t("filter.where")),
        h("p.fine.soft.wrap", where(q) ? [t("filter.said"), " ", h("code", where(q))] : t("filter.none")),
        h("button.small.quiet", { onclick: () => this.note(Object.fromEntries(["collection", "tag", "folder", "title", "kind", "since", "until", "where"].map((name) => [name, ""]))) }, t("filter.clear"))));
  }

  // -------------------------------------------------------------------------------------------- results

  async run() {
    const q = this.query;
    if (!q.q) return;
    const ticket = (this.ticket = Symbol("search"));
    this.told.textContent = t("step.searching");
    fill(this.results, h("p.steps", t("step.searching")));
    try {
      const sides = q.compare === "1" ? ["", "2"] : [""];
      const found = await Promise.all(sides.map((side) => post("/api/v1/retrieval", asked(q, side))));
      const texts = [...new Set(found.flatMap((one) => one.chunks.map((hit) => hit.content)))];
      const marks = new Map();
      const told = texts.length ? await post("/api/v1/matches", { question: q.q, texts }) : [];
      texts.forEach((text, at) => marks.set(text, told[at] || []));
      if (this.ticket !== ticket) return;
      this.marks = marks;
      this.write(found);
    } catch (error) {
      if (this.ticket === ticket) fill(this.results, fault(error, () => this.run()));
    }
  }

  write(found) {
    const tops = Object.fromEntries(STAGES.map((stage) => [stage, Math.max(1e-9, ...found.flatMap((one) => one.chunks.map((hit) => hit.scores[stage] || 0)))]));
    const [first, second] = found;
    const title = h("h1.unseen", t("place.search"));
    this.told.textContent = found.map((one) => this.counted(one)).join(" / ");
    if (!second) {
      fill(this.results, title, this.summary(first), first.chunks.map((hit) => this.hit(hit, tops)), first.chunks.length ? null : this.nothing(), this.whyNot());
      this.lines = null;
      return this.clipped();
    }
    const rankOf = (results) => new Map(results.chunks.map((hit) => [hit.id, hit.rank]));
    const [inFirst, inSecond] = [rankOf(first), rankOf(second)];
    const longest = Math.max(1e-9, ...found.map((one) => one.timings_ms?.total || 0));
    const column = (results, side, other) => h("div", h("h3", t("search.side", { side })), this.summary(results, longest),
      results.chunks.map((hit) => this.hit(hit, tops, { side, other: other.get(hit.id) })), results.chunks.length ? null : this.nothing());
    const ties = h("svg.ties", { "aria-hidden": "true" });
    const pair = h("div.pair", column(first, "A", inSecond), ties, column(second, "B", inFirst));
    const shared = first.chunks.filter((hit) => inSecond.has(hit.id)).length;
    fill(this.results, title, h("p", t("search.shared", { n: shared, of: Math.max(first.chunks.length, second.chunks.length) })), pair, this.whyNot());
    this.clipped();
    this.lines = () => this.tie(pair, ties);
    requestAnimationFrame(this.lines);
  }

  /** Lines between the same passage's places in both lists. */
  tie(pair, svg) {
    const box = svg.getBoundingClientRect();
    const middle = (node) => node.querySelector("header").getBoundingClientRect().top - box.top + 12;
    const places = (side) => new Map([...pair.querySelectorAll(`.hit[data-side="${side}"]`)].map((node) => [node.dataset.id, node]));
    const [first, second] = [places("A"), places("B")];
    fill(svg, [...first].filter(([id]) => second.has(id)).map(([id, node]) => {
      const far = Math.abs(Number(node.dataset.rank) - Number(second.get(id).dataset.rank)) > 2;
      return h("line", { x1: 4, y1: middle(node), x2: box.width - 4, y2: middle(second.get(id)), class: far ? "far" : "" });
    }));
  }

  /** "More" only where something is cut off. */
  clipped() {
    for (const said of this.results.querySelectorAll(".hit:not(.whole) .said")) {
      said.parentNode.querySelector(".unfold").hidden = said.scrollHeight <= said.clientHeight + 1;
    }
  }

  counted(results) {
    return t("search.found", { shown: results.chunks.length, n: number(results.total) });
  }

  summary(results, longest = 0) {
    const timings = Object.entries(results.timings_ms || {}).filter(([name]) => name !== "total");
    const total = results.timings_ms?.total || timings.reduce((sum, [, value]) => sum + value, 0);
    const sum = timings.reduce((all, [, value]) => all + value, 0) || 1;
    const words = (name) => t.has(`stage.${name}`) ? t(`stage.${name}`) : name;
    return h("div.stack",
      h("p.soft.fine", this.counted(results), " · ", milliseconds(total), " · ", t(`mode.${results.mode_used}`)),
      results.fallback_reason ? h("p.note", t.has(`fallback.${results.fallback_reason}`) ? t(`fallback.${results.fallback_reason}`) : results.fallback_reason) : null,
      Object.entries(results.corrected || {}).map(([typed, meant]) => h("p.note", t("corrected", { typed, meant }))),
      (results.degraded || []).map((one) => h("p.note", worded(one))),
      h("div.strip", { role: "img", "aria-label": `${t("search.times")}: ${timings.map(([name, value]) => `${words(name)} ${milliseconds(value)}`).join(", ")}`, vars: { length: longest ? `${Math.max(4, (total / longest) * 100)}%` : "100%" } },
        timings.map(([name, value]) => h("i", { title: `${words(name)} ${milliseconds(value)}`, vars: { share: `${(value / sum) * 100}%`, tone: tone(name) } }))),
      h("details", h("summary.fine.soft", t("search.times")), h("div.legend", timings.map(([name, value]) => h("span", h("i", { vars: { tone: tone(name) } }), `${words(name)} ${milliseconds(value)}`)))));
  }

  hit(hit, tops, { side = "", other } = {}) {
    const node = h("article.hit", { tabindex: 0, data: { id: hit.id, side, rank: hit.rank }, "aria-label": t("search.hit", { n: hit.rank, title: named(hit) }),
      onkeydown: (event) => event.key === "Enter" && event.target === node && this.open(hit, node, { enter: true }) },
      h("header", h("span.rank", `${hit.rank}.`), h("button.title", { onclick: (event) => this.open(hit, node, { enter: !event.detail }) }, named(hit)),
        h("span.soft.fine", place(hit)),
        side ? h("span.tag", other ? t("search.other", { side: side === "A" ? "B" : "A", n: other }) : t("search.only")) : null),
      h("div.said", rendered(stretchOf(hit), this.marks.get(hit.content) || [])),
      h("div.bars", STAGES.map((stage) => {
        const score = hit.scores[stage];
        return meter(t(`stage.${stage}`), score === undefined ? 0 : score / tops[stage], score === undefined ? "–" : score.toFixed(score >= 10 ? 1 : 3));
      })),
      h("div.row",
        h("button.small.quiet.unfold", { onclick: (event) => (event.target.textContent = t(node.classList.toggle("whole") ? "less" : "more")) }, t("more")),
        h("button.small.quiet", { onclick: () => this.why(hit.document_id, named(hit), hit.reasons) }, t("why")),
        h("button.small.quiet", { title: t("search.right.why"), "aria-pressed": "false", onclick: (event) => this.right(hit, event.currentTarget) }, t("search.right")),
        hit.duplicates?.length ? h("span.soft.fine", t("search.duplicates", { n: hit.duplicates.length })) : null));
    return node;
  }

  /** Keep that this is what the question was after: questions to tune with. Pressed again, it is taken back. */
  async right(hit, button) {
    const on = button.getAttribute("aria-pressed") !== "true";
    try {
      await post("/api/v1/feedback", { kind: "click", value: on ? 1 : 0, query: this.query.q, document_id: hit.document_id, chunk_id: hit.id });
      button.setAttribute("aria-pressed", String(on));
      if (on) toast(t("thumb.thanks"));
    } catch (error) {
      toast(error.message);
    }
  }

  nothing() {
    return h("div.note", h("p", t("search.none")), h("p.soft", t(where(this.query) ? "search.none.filter" : "search.none.try")));
  }

  open(hit, node, { enter = false } = {}) {
    this.pane?.leave?.();
    this.returnTo = node;
    this.frame.classList.add("open");
    this.aside.hidden = false;
    this.pane = sourcePane(this.aside, { ...hit, span: hit.found?.[0] || hit.span, quote: "" }, { close: () => this.close(), behind: [this.form, this.panel, this.results], enter });
  }

  close() {
    if (this.aside.hidden) return;
    this.pane?.leave?.();
    this.frame.classList.remove("open");
    this.aside.hidden = true;
    fill(this.aside);
    this.returnTo?.focus();
  }

  walk(step) {
    const all = [...this.results.querySelectorAll(".hit")];
    const from = this.aside.contains(document.activeElement) ? this.returnTo : document.activeElement;
    const at = all.findIndex((one) => one.contains(from));
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))];
    next?.focus({ preventScroll: true });
    reveal(next, "nearest");
  }

  // -------------------------------------------------------------------------------------------- why

  whyNot() {
    const input = h("input", { list: "documents-known", placeholder: t("whynot.placeholder"), "aria-label": t("whynot.placeholder"), autocomplete: "off" });
    const list = h("datalist", { id: "documents-known" });
    let known = [];
    let loading = null;
    const load = () => (loading ??= documents().then((found) => {
      known = found;
      fill(list, known.map((one) => h("option", { value: named(one) }, one.name)));
    }).catch((error) => ((loading = null), toast(error.message))));
    return h("form.card", { onsubmit: async (event) => {
      event.preventDefault();
      await load();
      const wanted = input.value.trim();
      const isIt = (one) => [named(one), one.name, one.uri, one.id].some((name) => name?.toLowerCase() === wanted.toLowerCase());
      const found = known.find(isIt) ?? (await documents({ keywords: wanted }).catch((error) => (toast(error.message), null)))?.find(isIt); // not all are offered
      if (found) this.why(found.id, named(found));
      else toast(t("whynot.unknown"));
    } }, h("h2", t("whynot.title")), h("p.soft.fine", t("whynot.lead")),
    h("div.seek", h("div.grow", input, list), h("button", { type: "submit", onfocus: load, onpointerenter: load }, t("why"))), void input.addEventListener("focus", load));
  }

  async why(id, title, reasons = []) {
    const body = h("div.stack", h("p.soft", t("loading")));
    modal(t("why.title", { title }), () => body);
    const known = reasons.length ? [h("ul", reasons.map((one) => h("li", `· ${worded(one)}`)))] : [];
    try {
      const told = await post("/api/v1/why", { ...asked(this.query, ""), document: id });
      fill(body, explained(told, known));
    } catch (error) {
      fill(body, known, error.status === 404 && known.length ? null : fault(error));
    }
  }
}

/** Where it stood after every stage, the words it has and lacks, and the smallest change that brings it in. */
function explained(told, reasons) {
  const words = (label, list) => (list.length ? [h("dt", t(label)), h("dd.row", list.map((one) => h("span.tag", one)))] : null);
  const stage = (one) => h("tr", h("th", { scope: "row" }, t.has(`stage.${one.stage}`) ? t(`stage.${one.stage}`) : one.stage),
    h("td.number", one.rank ? t("why.rank", { n: one.rank, of: number(one.of) }) : t("why.absent", { of: number(one.of) })),
    h("td.number", one.score === null ? "" : one.score.toFixed(3)));
  return [
    h("p", h("b", told.found ? `● ${t("why.found", { n: told.rank ?? "" })}` : `○ ${t("why.missing")}`), " ", told.found ? "" : worded(told.reason)),
    told.change ? h("p.note", h("b", t("why.change")), " ", worded(told.change)) : null,
    reasons,
    told.stages.length ? h("div.scroll", h("table.shelf", h("thead", h("tr", ["stage", "place", "score"].map((name, at) => h(at ? "th.number" : "th", { scope: "col" }, t(`why.${name}`))))), h("tbody", told.stages.map(stage)))) : null,
    h("dl.facts", words("why.matched", told.matched), words("why.lacking", told.missing),
      Object.entries(told.filters).map(([clause, fits]) => [h("dt", t("why.filter")), h("dd", h("code", clause), ` ${t(fits ? "why.fits" : "why.fits.not")}`)])),
    told.notes.map((one) => h("p.soft.fine", t.has(`fallback.${one}`) ? t(`fallback.${one}`) : worded(one))),
  ];
}

/** A hit's text as a stretch that can be rendered. */
function stretchOf({ content, kind, uri }) {
  const whole = { kind: kind === "code" ? "code" : "table", span: [0, content.length], header: "" }; // only rows are made a table
  const mime = /\.(md|markdown)$/i.test(uri) ? "text/markdown" : /^https?:|\.(html?|xhtml|epub)$/i.test(uri) ? "text/html" : "text/plain";
  return { start: 0, text: content, mime, blocks: [whole], sections: [], hidden: [], pages: [] };
}

const said = (weight) => `${100 - weight} : ${weight}`;
const quoted = (value) => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;

/** The form as a filter. */
export function where(q) {
  const parts = [];
  if (q.tag) parts.push(`tag = ${quoted(q.tag)}`);
  if (q.folder) parts.push(`folder = ${quoted(q.folder)}`);
  if (q.title) parts.push(`title contains ${quoted(q.title)}`);
  if (q.kind) parts.push(`kind = ${quoted(q.kind)}`);
  if (q.since) parts.push(`date >= ${q.since}`);
  if (q.until) parts.push(`date <= ${q.until}`);
  if (q.where) parts.push(parts.length ? `(${q.where})` : q.where);
  return parts.join(" and ");
}

function asked(q, side) {
  const of = (name) => q[name + side] || "";
  const preset = app.get("about")?.presets.find((one) => one.name === of("preset"));
  const options = { ...preset?.options };
  if (of("mode")) options.mode = of("mode");
  if (of("weight")) {
    options.semantic_weight = 1 - Number(of("weight")) / 100;
    options.keyword_weight = Number(of("weight")) / 100;
    options.fusion = "weighted_score";
  }
  if (of("rerank")) options.rerank = of("rerank") === "off" ? "" : of("rerank");
  const ids = (app.get("collections") || []).filter((one) => one.name === q.collection).map((one) => one.id);
  return {
    question: q.q, page: 1, page_size: Number(q.top || 8), top_n: Number(q.top || 8), highlight: true, options,
    ...(where(q) ? { where: where(q) } : {}), ...(ids.length ? { dataset_ids: ids } : {}),
  };
}
