// Tune: ways to search tried on questions whose answers are known, and the best of them made the setting, with undo.

import { app, get, post, remove } from "./api.js";
import { language, t } from "./i18n.js";
import { fill, h } from "./kit.js";
import { fault, milliseconds, number, toast, when } from "./said.js";

const SAID = "feedback"; // the questions that people marked, in place of a test set
const CHOICES = {
  mode: ["hybrid", "keyword", "semantic"],
  keyword_weight: [0.1, 0.3, 0.5, 0.7, 0.9],
  rerank: ["", "builtin"],
  top_n: [5, 8, 12, 20],
};
const FIRST = { keyword_weight: [0.3, 0.5, 0.7], rerank: ["", "builtin"] }; // ticked to begin with
const METRICS = ["ndcg@10", "mrr@10", "page"];
const MAX_WAYS = 60;
const ROWS = 10; // of the table, until all are asked for
const WAIT_SECONDS = 0.7;

const share = (value) => `${Math.round(value * 100)} %`;
const WORDS = {
  mode: (value) => t(`mode.${value}`),
  keyword_weight: (value) => t("tune.words", { share: share(value) }),
  rerank: (value) => (value ? (value === "builtin" ? t("tune.again") : t("tune.again.by", { name: value })) : t("tune.again.not")),
  top_n: (value) => t("tune.top", { n: value }),
};

/** A card in which to try and apply; `left` tells whether the reader is still there. */
export class Tuning {
  constructor(node, left) {
    Object.assign(this, { node, left, picked: structuredClone(FIRST), metric: METRICS[0], target: "", shown: "", rows: ROWS });
    this.form = h("div.stack");
    this.result = h("div.stack");
    this.told = h("p.unseen", { role: "status" });
    this.standing = h("div.stack");
    fill(node, h("h2", t("tune.title")), h("p.soft", t("tune.lead")), this.form, this.result, this.standing, this.told);
  }

  async load(sets) {
    this.sets = sets ?? this.sets;
    try {
      const found = await get("/api/v1/tunings");
      this.draw(found);
      if (found.runs[0]?.state === "running" && !this.left()) setTimeout(() => this.left() || this.load(), WAIT_SECONDS * 1000);
    } catch (error) {
      fill(this.result, fault(error, () => this.load()));
    }
  }

  draw({ runs, applied, said, now }) {
    const busy = runs[0]?.state === "running";
    if (this.busy !== undefined && this.busy !== busy) this.told.textContent = t(busy ? "quality.running" : "quality.done");
    this.busy = busy;
    this.set ??= runs[0]?.set ?? (said ? SAID : this.sets[0].name);
    if (!said && this.set === SAID) this.set = this.sets[0].name;
    this.drawForm(said, now);
    this.drawRun(runs.find((run) => run.id === this.shown) || runs[0], runs);
    this.drawApplied(applied);
  }

  /** How many: the share of the words counts only where both legs are asked. */
  ways(now) {
    const count = (name) => Math.max(1, this.picked[name]?.length || 0);
    const modes = this.picked.mode?.length ? this.picked.mode : [now.mode];
    return modes.reduce((sum, mode) => sum + (mode === "hybrid" ? count("keyword_weight") : 1) * count("rerank") * count("top_n"), 0);
  }

  drawForm(said, now) {
    const collections = (app.get("collections") || []).map((one) => [one.name, one.name]);
    const sign = JSON.stringify([said, now, this.busy, this.set, this.sets, collections]);
    if (sign === this.formed) return; // somebody may be choosing
    this.formed = sign;
    const told = h("p.soft.fine", { role: "status" });
    const begin = h("button.primary", { onclick: () => begin.getAttribute("aria-disabled") === "true" || this.begin() });
    const tell = () => {
      const ways = this.ways(now);
      told.textContent = ways < 2 ? t("tune.none") : ways > MAX_WAYS ? t("tune.many", { n: ways, most: MAX_WAYS }) : t("tune.ways", { n: ways });
      begin.textContent = t(this.busy ? "quality.running" : "tune.do");
      begin.setAttribute("aria-disabled", String(this.busy || ways < 2 || ways > MAX_WAYS)); // it keeps the focus
    };
    const tick = (name, value) => h("label.tick", h("input", {
      type: "checkbox", checked: this.picked[name]?.includes(value),
      onchange: (event) => {
        const others = (this.picked[name] || []).filter((one) => one !== value);
        this.picked[name] = event.target.checked ? CHOICES[name].filter((one) => one === value || others.includes(one)) : others;
        tell();
      },
    }), name === "keyword_weight" ? share(value) : name === "top_n" ? String(value) : name === "rerank" ? t(value ? "search.rerank.builtin" : "off") : t(`mode.${value}`));
    const group = (name, label) => h("fieldset", h("legend", label), h("div.row", CHOICES[name].map((value) => tick(name, value))),
      h("p.soft.fine", t("tune.now", { value: name === "keyword_weight" ? share(now[name]) : name === "rerank" ? (now[name] || t("off")) : name === "mode" ? t(`mode.${now[name]}`) : now[name] })));
    const pick = (label, value, choices, onchange) => h("label.field", h("span.label", label), h("select", { onchange: (event) => onchange(event.target.value) },
      choices.map(([key, words]) => h("option", { value: key, selected: key === value }, words))));
    fill(this.form,
      h("div.row.ends",
        pick(t("tune.questions"), this.set, [...(said ? [[SAID, t("tune.said", { n: number(said) })]] : []), ...this.sets.map((one) => [one.name, one.sample ? t("quality.sample", { name: one.name }) : one.name])],
          (value) => ((this.set = value), this.drawForm(said, now))),
        this.set === SAID && collections.length > 1 ? pick(t("collection"), this.within || "", [["", t("collection.all")], ...collections], (value) => (this.within = value)) : null),
      said ? null : h("p.soft.fine", t("tune.said.none")),
      this.set === SAID ? h("p.soft.fine", t("tune.said.fair")) : null,
      h("div.choices", group("mode", t("search.mode")), group("keyword_weight", t("tune.share")), group("rerank", t("search.rerank")), group("top_n", t("search.top"))),
      h("div.row", begin, told));
    tell();
  }

  async begin() {
    try {
      const made = await post("/api/v1/tunings", { set: this.set, ...this.picked, ...(this.set === SAID && this.within ? { collection: this.within } : {}) });
      this.shown = made.id;
      await this.load();
    } catch (error) {
      toast(error.message);
    }
  }

  // -------------------------------------------------------------------------------------------- what came out

  drawRun(run, runs) {
    if (!run) return fill(this.result);
    const on = (one) => (one.set === SAID ? t("tune.said.short") : one.set) + (one.collection ? ` · ${one.collection}` : "");
    const title = h("div.row.apart", h("h3", t("tune.result", { set: on(run), n: number(run.questions || 0), when: when(run.created) })),
      runs.length > 1 ? h("label.field.inline", h("span.unseen", t("tune.earlier")), h("select", { "aria-label": t("tune.earlier"), onchange: (event) => ((this.shown = event.target.value), this.load()) },
        runs.map((one) => h("option", { value: one.id, selected: one.id === run.id }, `${on(one)}, ${when(one.created)}`)))) : null);
    if (run.state === "running") return fill(this.result, h("p.steps", t("quality.running"), " ", run.note));
    if (run.state === "failed") return fill(this.result, title, h("p.note.poor", run.note));
    const of = (way) => way.differences[this.metric];
    const order = run.ways.map((way, at) => ({ ...way, at })).sort((a, b) => b.figures[this.metric] - a.figures[this.metric] || a.p95_ms - b.p95_ms);
    const reach = Math.max(0.01, ...run.ways.flatMap((way) => [Math.abs(of(way).low), Math.abs(of(way).high)]));
    const collections = (app.get("collections") || []).filter((one) => one.owner === app.get("about")?.owner);
    const choose = (label, value, choices, onchange) => h("label.field", h("span.label", label), h("select", { onchange: (event) => onchange(event.target.value) }, choices.map(([key, words]) => h("option", { value: key, selected: key === value }, words))));
    fill(this.result, title, h("p", verdict(run, order, this.metric)),
      h("div.row.ends",
        choose(t("tune.metric"), this.metric, METRICS.map((name) => [name, t(`tune.metric.${name}`)]), (value) => ((this.metric = value), this.drawRun(run, runs))),
        choose(t("tune.target"), this.target, [["", t("collection.all")], ...collections.map((one) => [one.name, t("tune.collection", { name: one.name })])], (value) => (this.target = value))),
      h("div.scroll", { tabindex: 0, role: "region", "aria-label": t("tune.title") }, h("table.shelf.cards.ways",
        h("thead", h("tr", h("th", { scope: "col" }, t("tune.way")), h("th.number", { scope: "col" }, t(`tune.short.${this.metric}`)), h("th", { scope: "col" }, t("tune.difference")), h("th.number", { scope: "col" }, "p95"), h("th", { scope: "col" }, h("span.unseen", t("library.actions"))))),
        h("tbody", order.slice(0, this.rows).map((way) => h("tr", { class: way.at ? "" : "base" },
          h("th", { scope: "row" }, worded(way)),
          h("td.number", { data: { label: t(`tune.short.${this.metric}`) } }, way.figures[this.metric].toFixed(3)),
          h("td", way.at ? difference(of(way), reach) : h("span.soft", "–")),
          h("td.number", { data: { label: "p95" } }, milliseconds(way.p95_ms)),
          h("td.acts", h("button.small", { onclick: () => this.apply(run, way), "aria-label": t("tune.apply.of", { way: worded(way) }) }, t("tune.apply")))))))),
      order.length > this.rows ? h("div.row", h("button.small", { onclick: () => ((this.rows = MAX_WAYS + 1), this.drawRun(run, runs)) }, t("tune.all", { n: order.length }))) : null);
  }

  async apply(run, way) {
    try {
      const made = await post(`/api/v1/tunings/${encodeURIComponent(run.id)}/apply`, { way: way.at, collection: this.target });
      toast(t("tune.applied", { way: worded(way), where: this.target || t("collection.all") }), { undo: () => this.undo(made) });
    } catch (error) {
      toast(error.message);
    }
    await this.load();
  }

  async undo(applied) {
    try {
      const told = await remove(`/api/v1/applied/${encodeURIComponent(applied.id)}`);
      toast(told.left.length ? t("tune.left", { names: told.left.join(", ") }) : t("tune.undone"));
    } catch (error) {
      toast(error.message);
    }
    await this.load();
  }

  drawApplied(applied) {
    fill(this.standing, applied.length ? [h("h3", t("tune.standing")), h("ul.listed", applied.slice(0, 5).map((one) => h("li",
      h("span.wrap", h("code", Object.entries(one.changes).map(([name, value]) => `${name.split(".").at(-1)} = ${value === "" ? '""' : value}`).join(", ")),
        h("div.soft.fine", `${one.collection || t("collection.all")} · ${when(one.created)}${one.stands ? "" : ` · ${t("tune.changed")}`}`)),
      h("button.small", { onclick: () => this.undo(one), "aria-label": `${t("undo")}: ${one.collection || t("collection.all")}, ${when(one.created)}` }, t("undo")))))] : null);
  }
}

function worded(way) {
  const told = Object.entries(way.changes).filter(([name]) => name in WORDS).map(([name, value]) => WORDS[name](value));
  const words = told.join(language() === "zh" ? "，" : ", ");
  return words ? words[0].toUpperCase() + words.slice(1) : t("tune.as.now");
}

const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : "±"}${Math.abs(value).toFixed(3)}`;
const clear = (one) => (one.low > 0 ? "better" : one.high < 0 ? "worse" : "same");
const SIGNS = { better: "▲", worse: "▼", same: "=" };

/** A difference in words and numbers, and its interval as a line over zero. */
export function difference(one, reach) {
  const at = (value) => 60 + (value / reach) * 54;
  return h("span.row.difference",
    h("svg.span", { viewBox: "0 0 120 14", "aria-hidden": "true", class: clear(one) },
      h("line.zero", { x1: 60, y1: 0, x2: 60, y2: 14 }), h("line", { x1: at(one.low), y1: 7, x2: Math.max(at(one.high), at(one.low) + 1), y2: 7 }), h("circle", { cx: at(one.mean), cy: 7, r: 4 })),
    h("span", `${SIGNS[clear(one)]} ${signed(one.mean)} `, h("span.soft.fine", `(${signed(one.low)} … ${signed(one.high)})`)));
}

/** What to make of it, in one sentence. */
function verdict(run, order, metric) {
  const base = run.ways[0];
  const best = order.find((way) => way.at && way.differences[metric].low > 0);
  if (best) return t("tune.winner", { way: worded(best), by: signed(best.differences[metric].mean) });
  const quick = order.filter((way) => way.at && way.differences[metric].high >= 0 && way.figures[metric] >= base.figures[metric]).sort((a, b) => a.p95_ms - b.p95_ms)[0];
  if (quick && quick.p95_ms < base.p95_ms / 1.5) return t("tune.quicker", { way: worded(quick), times: (base.p95_ms / Math.max(0.1, quick.p95_ms)).toFixed(1) });
  return t("tune.stay");
}
