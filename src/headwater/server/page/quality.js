// Quality: is it better than yesterday, which setting wins, where does it fail, and what did people say.

import { app, get, may, post } from "./api.js";
import { t } from "./i18n.js";
import { address, fill, h } from "./kit.js";
import { fault, milliseconds, number, toast, when } from "./said.js";
import { difference, Tuning } from "./tune.js";

const METRICS = ["ndcg@10", "recall@5", "recall@10", "mrr@10", "precision@5"];
const TONES = { keyword: "var(--fair)", semantic: "var(--accent)", hybrid: "var(--good)" };
const WAIT_SECONDS = 1;
/** A metric as it is written. */
const called = (name) => name.replace("ndcg", "nDCG").replace("mrr", "MRR").replace("recall", "Recall").replace("precision", "Precision").replace("_ms", "");

export async function show(root, { query }) {
  const view = new Quality(root, query);
  await view.load();
  return { leave: () => (view.left = true), changed: (now) => ((view.query = now), view.load()) };
}

class Quality {
  constructor(root, query) {
    Object.assign(this, { query, left: false, form: h("div.row.ends"), listed: h("div.stack"), detail: h("section.card"), tune: h("section.card"), said: h("section.card") });
    this.told = h("p.unseen", { role: "status" });
    if (may("admin")) this.tuning = new Tuning(this.tune, () => this.left);
    fill(root, h("div.page", h("div.stack", h("h1", t("place.quality")), h("p.soft", t("quality.lead"))),
      h("section.card", h("h2", t("quality.run")), this.form, this.listed), this.detail, this.tune, this.said, this.told));
  }

  async load() {
    try {
      if (!may("admin")) {
        fill(this.listed, h("p.soft", t("quality.admin")));
        return this.drawFeedback((await get("/api/v1/feedback", { page_size: 50 })).feedback);
      }
      const [found, { feedback }] = await Promise.all([get("/api/v1/trials"), get("/api/v1/feedback", { page_size: 50 })]);
      this.drawRuns(found);
      this.drawFeedback(feedback);
      await Promise.all([this.drawRun(found.runs), this.tuning.sets ? null : this.tuning.load(found.sets)]);
      if (found.runs[0]?.state === "running" && !this.left) setTimeout(() => this.left || this.load(), WAIT_SECONDS * 1000);
    } catch (error) {
      fill(this.listed, fault(error, () => this.load()));
    }
  }

  note(changes) {
    this.query = { ...this.query, ...changes };
    address.note(changes);
    this.load();
  }

  /** What to measure: drawn once, so that a choice is not lost while a run goes on. */
  drawForm(sets, first) {
    const choose = (choices, value) => h("select", choices.map(([key, words]) => h("option", { value: key, selected: key === value }, words)));
    const set = choose(sets.map((one) => [one.name, one.sample ? t("quality.sample", { name: one.name }) : one.name]), first);
    const preset = choose([["", t("search.preset.own")], ...(app.get("about")?.presets || []).map((one) => [one.name, one.name])], "");
    const field = (label, node) => h("label.field", h("span.label", label), node);
    this.begin = h("button.primary", { onclick: async () => {
      if (this.busy) return;
      try {
        const made = await post("/api/v1/trials", { set: set.value, preset: preset.value });
        this.note({ run: made.id, against: "" });
      } catch (error) {
        toast(error.message);
      }
    } });
    fill(this.form, field(t("quality.set"), set), field(t("search.preset"), preset), this.begin);
  }

  drawRuns({ sets, runs, folder }) {
    const busy = runs[0]?.state === "running";
    if (!this.begin) this.drawForm(sets, runs[0]?.set ?? sets[0].name);
    this.begin.textContent = t(busy ? "quality.running" : "quality.do");
    this.begin.setAttribute("aria-disabled", String(busy)); // not disabled: that would take the focus away
    if (this.busy !== undefined && this.busy !== busy) this.told.textContent = t(busy ? "quality.running" : "quality.done");
    this.busy = busy;
    const figure = (run, name) => { const value = run.modes.hybrid?.summary[name]; return value === undefined ? "" : name.endsWith("_ms") ? milliseconds(value) : value.toFixed(3); };
    fill(this.listed, h("p.soft.fine.wrap", t("quality.where"), " ", h("code", folder)),
      runs.length ? h("div.scroll", { tabindex: 0, role: "region", "aria-label": t("quality.runs") }, h("table.shelf.cards",
        h("thead", h("tr", ["set", "preset", "when", "state"].map((name) => h("th", { scope: "col" }, t(`quality.column.${name}`))), ["ndcg@10", "recall@10", "mrr@10", "p95_ms"].map((name) => h("th.number", { scope: "col" }, called(name))), h("th", { scope: "col" }, h("span.unseen", t("library.actions"))))),
        h("tbody", runs.slice(0, 20).map((run) => h("tr",
          h("th", { scope: "row" }, run.set), h("td", { data: { label: t("quality.column.preset") } }, run.preset), h("td.when.stated", when(run.created)), h("td.stated", run.state === "done" ? t("state.completed") : `${t(`quality.state.${run.state}`)} ${run.note}`),
          ["ndcg@10", "recall@10", "mrr@10", "p95_ms"].map((name) => h("td.number", { data: { label: called(name) } }, figure(run, name))),
          h("td.acts", h("button.small.quiet", { onclick: () => this.note({ run: run.id }), "aria-label": t("quality.show.of", { set: run.set, preset: run.preset, when: when(run.created) }) }, t("quality.show")),
            run.id !== this.shown(runs) && run.state === "done" ? h("button.small.quiet", { onclick: () => this.note({ run: this.shown(runs), against: run.id }), "aria-label": t("quality.compare.of", { set: run.set, preset: run.preset, when: when(run.created) }) }, t("quality.compare")) : null)))))) : h("p.soft", t("quality.none")));
  }

  /** The run that is looked at: the chosen one, else the latest that is done. */
  shown(runs) {
    return this.query.run || runs.find((run) => run.state === "done")?.id;
  }

  async drawRun(runs) {
    const id = this.shown(runs);
    this.detail.hidden = !id;
    if (!id) return;
    const run = await get(`/api/v1/trials/${encodeURIComponent(id)}`, { against: this.query.against });
    const other = runs.find((one) => one.id === this.query.against);
    const modes = Object.entries(run.modes);
    const worst = run.modes.hybrid?.worst || [];
    fill(this.detail, h("h2", t("quality.result", { set: run.set, preset: run.preset })),
      run.state === "failed" ? h("p.note.poor", run.note) : null,
      run.state === "running" ? h("p.steps", t("quality.running"), " ", run.note) : null,
      modes.length ? [figures(modes), h("div.row.tops", h("div.grow", h("h3", t("quality.plot")), metricsPlot(modes)), h("div.grow", h("h3", t("quality.latency")), latencyPlot(run.modes.hybrid || modes[0][1])))] : null,
      other && run.compared ? this.compared(run, other) : null,
      modes.length ? [h("h3", t("quality.worst")), worst.length ? h("ul", worst.map((one) => h("li.row.wrap", h("span.number", one["ndcg@10"].toFixed(2)), h("a", { href: address.to("search", [], { q: one.query }) }, one.query)))) : h("p.soft", t("quality.worst.none"))] : null);
  }

  compared(run, other) {
    const words = (one) => (one.low > 0 ? "better" : one.high < 0 ? "worse" : "same");
    const reach = Math.max(0.01, ...Object.values(run.compared).flatMap((one) => [Math.abs(one.low), Math.abs(one.high)]));
    return h("div.stack", h("h3", t("quality.against", { preset: other.preset, when: when(other.created) })),
      Object.keys(run.compared).length ? h("ul.stack", Object.entries(run.compared).map(([mode, one]) => h("li.row", h("span.mode", t(`mode.${mode}`)), difference(one, reach), h("span", t(`quality.${words(one)}`)), h("span.soft.fine", `nDCG@10 · ${t("quality.queries", { n: number(one.queries) })}`)))) : h("p.soft", t("quality.incomparable")));
  }

  drawFeedback(all) {
    fill(this.said, h("h2", t("feedback.title")), all.length ? h("div.scroll", { tabindex: 0, role: "region", "aria-label": t("feedback.title") }, h("table.shelf.cards",
      h("thead", h("tr", h("th", { scope: "col" }, t("feedback.what")), h("th", { scope: "col" }, t("feedback.question")), h("th", { scope: "col" }, t("column.when")), h("th", { scope: "col" }, h("span.unseen", t("library.actions"))))),
      h("tbody", all.map((one) => h("tr", h("td", one.kind === "thumb" ? t(one.value > 0 ? "thumb.up" : "thumb.down") : t(one.value > 0 ? "feedback.click" : "feedback.click.not")),
        h("td.name", one.query || "–", one.comment ? h("div.soft.fine", one.comment) : null), h("td.when", when(one.created)),
        h("td.acts", one.query ? [h("a.button.small.quiet", { href: address.to("search", [], { q: one.query }) }, t("place.search")), h("a.button.small.quiet", { href: address.to("ask", [], { q: one.query }) }, t("ask.again"))] : null)))))) : h("p.soft", t("feedback.none")));
  }
}

function figures(modes) {
  const best = Object.fromEntries(METRICS.map((name) => [name, Math.max(...modes.map(([, one]) => one.summary[name]))]));
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": t("quality.plot") }, h("table.shelf.cards",
    h("thead", h("tr", h("th", { scope: "col" }, t("search.mode")), METRICS.map((name) => h("th.number", { scope: "col" }, called(name))), h("th.number", { scope: "col" }, "p50"), h("th.number", { scope: "col" }, "p95"))),
    h("tbody", modes.map(([mode, one]) => h("tr", h("th", { scope: "row" }, t(`mode.${mode}`)), METRICS.map((name) => h("td.number", { data: { label: called(name) } }, one.summary[name] === best[name] ? h("b", one.summary[name].toFixed(3)) : one.summary[name].toFixed(3))), h("td.number", { data: { label: "p50" } }, milliseconds(one.summary.p50_ms)), h("td.number", { data: { label: "p95" } }, milliseconds(one.summary.p95_ms)))))));
}

/** Bars from 0 to 1: one group a metric, one bar a mode, each with its number. */
function metricsPlot(modes) {
  const row = 18;
  const group = modes.length * row + 26;
  const names = METRICS.slice(0, 4);
  return h("svg.plot", { viewBox: `0 0 520 ${names.length * group}`, role: "img", "aria-label": t("quality.plot") }, names.map((name, at) => [
    h("text.strong", { x: 0, y: at * group + 14 }, called(name)),
    modes.map(([mode, one], line) => {
      const y = at * group + 22 + line * row;
      return [h("rect", { x: 96, y, width: Math.max(1, one.summary[name] * 360), height: row - 4, rx: 2, vars: { tone: TONES[mode] } }), h("text", { x: 0, y: y + 12 }, t(`mode.${mode}`)), h("text.strong", { x: 102 + one.summary[name] * 360, y: y + 12 }, one.summary[name].toFixed(3))];
    })]));
}

function latencyPlot({ latency }) {
  const first = latency.findIndex(([, count]) => count);
  const last = latency.findLastIndex(([, count]) => count);
  const bars = latency.slice(Math.max(0, first - 1), last + 2);
  const most = Math.max(1, ...bars.map(([, count]) => count));
  const wide = 520 / Math.max(4, bars.length);
  return h("svg.plot", { viewBox: "0 0 520 180", role: "img", "aria-label": t("quality.latency") }, h("line", { x1: 0, y1: 150, x2: 520, y2: 150 }), bars.map(([bound, count], at) => [
    h("rect", { x: at * wide + 4, y: 150 - (count / most) * 120, width: wide - 8, height: (count / most) * 120, rx: 2 }),
    count ? h("text.strong", { x: at * wide + wide / 2, y: 142 - (count / most) * 120, "text-anchor": "middle" }, count) : null,
    h("text", { x: at * wide + wide / 2, y: 168, "text-anchor": "middle" }, bound ? `≤ ${bound}` : "> 5000")]));
}
