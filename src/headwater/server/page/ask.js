// Ask: a conversation, and beside it the source of any sentence, lit at the exact passage.

import { app, CHATS, events, get, may, part, post } from "./api.js";
import { sourcePane } from "./source.js";
import { learn, t, tongue, worded } from "./i18n.js";
import { add, address, fill, h, memory, reveal } from "./kit.js";
import { copy, examples, fault, named, place, support, tidy, toast } from "./said.js";
import { inline } from "./text.js";
import { loadSample, pickFiles } from "./adding.js";

const MARKER = /\s?\[(\d{1,3}|\?)\]/; // a number, or that no passage bears the sentence out
const END = /^[.。!！?？;；…]+/;
const LAST_WORD = /(?:[^\s\u2e80-\uffff*`[\]()]{1,20}|[\u2e80-\uffff])$/;
const HEADING = /^(\n*)#{1,6} +/;
const ROW = /^\s*\|(.*)\|((?:\s?\[(?:\d{1,3}|\?)\])*)\s*$/;
const RULE = /^[\s|:-]+$/;
const CODE = /^\s*```[^\n]*\n([\s\S]*?)\n?```((?:\s*\[(?:\d{1,3}|\?)\])*)\s*$/; // and the numbers after it
const COMPOSING = 229; // the key code while Chinese is being typed: Safari ends that before it tells of Enter
const AT_END_PIXELS = 48; // the view follows the text only while the reader is this near to its end
const TOP_PIXELS = 24; // above a question that stands at the top
let kept = null; // the conversation of this page: it is still there when one comes back from another place
let running = null; // what stops the answer that is being written; it is written on while one is elsewhere
let shown = null; // the view, while it is on show
let draft = ""; // a question that was not sent yet

export async function show(root, { query }) {
  const view = new Ask(root);
  await view.open(query);
  return { leave: () => view.leave(), changed: (now) => view.changed(now), keys: view.keys() };
}

class Ask {
  constructor(root) {
    this.turnsNode = h("div.turns", { role: "log", "aria-label": t("ask.log"), tabindex: 0 });
    this.bar = h("div.talkbar");
    this.question = h("textarea", {
      rows: 1, id: "question", placeholder: t("ask.placeholder"), "aria-label": t("ask.placeholder"), autocomplete: "off",
      oninput: () => this.grow(), onkeydown: (event) => this.typed(event),
    });
    this.send = h("button.primary.send", { type: "submit" }, t("ask.send"));
    this.form = h("form.composer", { onsubmit: (event) => this.submitted(event) },
      h("div.box", this.question, this.send));
    this.pane = h("aside.source", { "aria-label": t("source.title"), hidden: true });
    this.splitter = h("div.splitter", {
      role: "separator", tabindex: 0, "aria-orientation": "vertical", "aria-label": t("source.width"), hidden: true,
      "aria-valuemin": 25, "aria-valuemax": 75, "aria-valuenow": 50,
      onpointerdown: (event) => this.drag(event), onkeydown: (event) => this.nudge(event),
    });
    this.frame = h("div.ask",
      this.talk = h("section.talk", { "aria-label": t("place.ask") }, h("h1.unseen", t("place.ask")), this.bar, this.turnsNode, this.form), this.splitter, this.pane);
    this.root = root;
    this.share(Number(memory.get("share", "52")));
  }

  async open(query) {
    fill(this.root, this.frame);
    shown = this;
    this.unwatch = app.watch((_, names) => names.includes("about") && this.told());
    this.tools();
    kept ??= { id: "", turns: [] };
    if (query.c && query.c !== kept.id) await this.load(query.c);
    else if (kept.id) address.note({ c: kept.id });
    if (!this.frame.isConnected) return; // one is elsewhere by now
    this.draw();
    this.sending(Boolean(running));
    if (running) this.unanswered();
    this.question.value = draft || (!kept.turns.length && history.state?.asked) || ""; // the page was left before its answer came
    this.grow();
    if (query.source && !this.missing) this.openSource(parsed(query.source));
    if (query.q) {
      address.note({ q: "" }); // asked once, not at every reload
      this.ask(query.q);
    }
    else if (matchMedia("(min-width: 861px)").matches && !document.activeElement?.closest(".tools, dialog")) this.question.focus();
  }

  /** Another collection, another model, the first documents. What did not change is left alone: somebody may be using it. */
  told() {
    this.tools();
    const ready = app.get("about").documents;
    if (kept && !kept.turns.length && !app.get("jobs")?.length && ready !== this.ready) this.draw();
  }

  leave() {
    this.unwatch();
    draft = this.question.value;
    if (shown === this) shown = null;
    this.sourceNode?.leave?.();
  }

  async changed(query) {
    if ((query.c || "") !== kept.id || this.missing) {
      this.stop();
      this.missing = null;
      if (query.c) await this.load(query.c);
      else kept = { id: "", turns: [] };
      this.draw();
    }
    if (query.source && !this.missing) this.openSource(parsed(query.source));
    else this.closeSource({ note: false });
  }

  keys() {
    return {
      ask: () => this.question.focus(),
      next: () => this.walk(1),
      previous: () => this.walk(-1),
      close: () => this.closeSource(),
    };
  }

  // -------------------------------------------------------------------------------------------- the bar

  tools() {
    const about = app.get("about");
    const collections = app.get("collections") || [];
    const models = about?.models || [];
    const chosen = this.collection();
    const sign = JSON.stringify([models, about?.model, collections.map((one) => one.name)]);
    if (sign === this.offered) return;
    this.offered = sign;
    const pick = (label, value, choices, onchange) =>
      h("select", { "aria-label": label, title: label, onchange: (event) => onchange(event.target.value) },
        choices.map(([key, words]) => h("option", { value: key, selected: key === value }, words)));
    fill(this.bar,
      h("button.small", { onclick: () => this.fresh() }, t("ask.new")),
      h("button.small", { onclick: () => this.history(), "aria-haspopup": "dialog" }, t("ask.history")),
      h("span.grow"),
      collections.length > 1 ? pick(t("collection"), chosen, [["", t("collection.all")], ...collections.map((one) => [one.name, one.name])],
        (value) => memory.set("collection", value)) : null,
      models.length > 1 ? pick(t("model"), memory.get("model"), models.map((one) => [one.name, one.label === "extractive" ? t("model.none") : one.label]),
        (value) => memory.set("model", value)) : null,
      about?.model ? h("label.tick.fine", h("input", {
        type: "checkbox", checked: memory.get("documents", "yes") === "yes",
        onchange: (event) => memory.set("documents", event.target.checked ? "yes" : "no"),
      }), t("ask.documents")) : null);
  }

  fresh() {
    this.stop();
    this.missing = null;
    kept = { id: "", turns: [] };
    this.closeSource({ note: false });
    history.pushState(null, "", address.to("ask"));
    this.draw();
    this.question.focus();
  }

  // -------------------------------------------------------------------------------------------- asking

  grow() {
    this.question.style.height = "auto";
    this.question.style.height = `${Math.min(this.question.scrollHeight, innerHeight * 0.4)}px`;
  }

  typed(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== COMPOSING) {
      event.preventDefault();
      this.form.requestSubmit();
    }
    if (event.key === "Escape") this.question.blur();
  }

  submitted(event) {
    event.preventDefault();
    if (running) return this.stop();
    const asked = this.question.value.trim();
    if (!asked) return;
    this.question.value = "";
    this.grow();
    this.ask(asked);
  }

  stop() {
    running?.abort();
    running = null;
    this.sending(false);
  }

  /** The stop button is where send was. */
  sending(now) {
    this.send.textContent = t(now ? "ask.stop" : "ask.send");
    this.send.classList.toggle("primary", !now);
  }

  async ask(question) {
    const turn = { question, sentences: [], steps: [], answer: null };
    kept.turns.push(turn);
    this.missing = null;
    if (kept.turns.length === 1) fill(this.turnsNode);
    this.place(turn);
    await this.run(turn);
  }

  /** The last question in its place; an earlier one at the end, where the server has it too. */
  again(turn) {
    return turn === kept.turns.at(-1) ? this.run(turn) : this.ask(turn.question);
  }

  /** Where the server has not said yet what the conversation is called, a reload finds its question in the box again. */
  unanswered() {
    if (!kept.id) history.replaceState({ asked: kept.turns.at(-1).question }, "");
  }

  async run(turn) {
    this.stop();
    learn(); // what will be said of the answer
    const abort = (running = new AbortController());
    this.unanswered();
    this.sending(true);
    Object.assign(turn, { sentences: [], steps: [], answer: null, error: null, stopped: false });
    this.drawTurn(turn);
    if (document.activeElement === document.body) turn.node.focus({ preventScroll: true }); // what was pressed is gone
    this.turnsNode.scrollTop = this.top(turn);
    const began = performance.now();
    const clock = setInterval(() => (turn.seconds.textContent = ` · ${Math.round((performance.now() - began) / 1000)} s`), 1000);
    const mine = kept;
    const body = {
      question: turn.question, stream: true, conversation_id: kept.id,
      use_knowledge_base: memory.get("documents", "yes") === "yes" || !app.get("about")?.model,
      ...(memory.get("model") ? { llm: memory.get("model") } : {}),
      ...(this.collection() ? { collections: [this.collection()] } : {}),
    };
    try {
      for await (const [name, data] of events(CHATS, body, abort.signal)) heard(turn, name, data);
    } catch (error) {
      if (error.name === "AbortError") turn.stopped = true;
      else turn.error = error;
      if (error.status === 404 && mine.id) await get(chat(mine.id)).catch((lost) => lost.status === 404 && (mine.id = "")); // deleted elsewhere: go on in a new one
    }
    clearInterval(clock);
    turn.seconds.textContent = "";
    if (running === abort) {
      running = null;
      shown?.sending(false);
    }
    if (!turn.answer && !turn.error) turn.stopped = true;
    shown?.drawTurn(turn);
  }

  /** The collection to ask, while it is still there. */
  collection() {
    const chosen = memory.get("collection");
    return (app.get("collections") || []).some((one) => one.name === chosen) ? chosen : "";
  }

  /** How far to scroll for a question to stand at the top. */
  top(turn) {
    return turn.node.offsetTop - this.turnsNode.offsetTop - TOP_PIXELS;
  }

  /**
   * Text grows downward; the view goes along while the reader is at its end. It stops where the question reaches the top,
   * and what comes under the text moves nothing: who reads from the beginning is not carried away from it.
   */
  following(turn, change) {
    const box = this.turnsNode;
    const end = () => box.scrollHeight - box.clientHeight;
    const atEnd = end() - box.scrollTop < AT_END_PIXELS;
    const top = this.top(turn);
    const written = change();
    if (atEnd) box.scrollTop = !written && box.scrollTop > top + 1 ? end() : Math.min(end(), Math.max(top, box.scrollTop));
  }

  // -------------------------------------------------------------------------------------------- drawing

  draw() {
    if (!kept.turns.length) return fill(this.turnsNode, this.missing && fault(this.missing, () => this.changed(address.read().query)), this.emptyState());
    fill(this.turnsNode);
    for (const turn of kept.turns) {
      this.place(turn);
      this.drawTurn(turn);
    }
    this.turnsNode.scrollTop = this.top(kept.turns.at(-1));
  }

  emptyState() {
    const about = app.get("about");
    const documents = (this.ready = about?.documents ?? 0);
    if (!documents && !may("write")) return h("div.empty", h("h2", t("empty.title")), h("p.lead", t("library.empty")), h("p.soft.fine", t("library.reader")));
    if (!documents) {
      return h("div.empty", h("h2", t("empty.title")), h("p.lead", t("empty.lead")),
        h("div.row",
          h("button.primary", { onclick: (event) => this.sample(event.target) }, t("empty.sample")),
          h("button", { onclick: pickFiles }, t("add.files"))),
        h("p.soft.fine", t("empty.none")), h("p.soft.fine", t("empty.drop")));
    }
    return h("div.empty", h("h2", t("ask.title")), h("p.lead", t("ask.lead", { n: documents })),
      about.examples?.length ? h("div.try", h("p.soft.fine", t("ask.try")),
        examples(about).map((one) => h("button", { onclick: () => this.ask(one.text), lang: one.language }, one.text))) : null);
  }

  async sample(button) {
    button.disabled = true;
    await loadSample();
    this.draw();
  }

  /** The nodes of a turn, at the end. They stay: what changes is written into them. */
  place(turn) {
    Object.assign(turn, { before: h("div"), answerNode: h("div.answer"), words: h("span"), seconds: h("span", { "aria-hidden": "true" }), after: h("div.stack"), drawn: null });
    turn.status = h("p.steps", { role: "status" }, h("span", turn.words, turn.seconds));
    turn.node = h("article.turn", { "aria-label": turn.question, tabindex: -1 }, h("h2.question", { lang: tongue(turn.question) }, turn.question), turn.before, turn.answerNode, turn.after);
    this.turnsNode.append(turn.node);
  }

  drawTurn(turn) {
    this.following(turn, () => {
      const waiting = !turn.answer && !turn.error && !turn.stopped;
      if (!turn.sentences.length && turn.answer) {
        turn.sentences = [{ text: turn.answer.answer ?? turn.answer.text ?? "", citations: turn.answer.citations }];
      }
      if (turn.drawn !== turn.sentences) {
        fill(turn.answerNode);
        Object.assign(turn, { drawn: turn.sentences, written: 0 });
      }
      for (; turn.written < turn.sentences.length; turn.written += 1) this.writeSentence(turn, turn.sentences[turn.written]);
      if (waiting) {
        const words = this.stepWords(turn.steps.at(-1), turn);
        if (turn.words.textContent !== words) turn.words.textContent = words;
        if (!turn.status.isConnected) turn.after.before(turn.status); // under the text, which grows downward
        turn.before.replaceChildren();
        turn.after.replaceChildren();
        return false;
      }
      turn.status.remove();
      fill(turn.before, turn.answer?.stale?.length ? h("p.note", t("stale", { titles: turn.answer.stale.join(", ") }),
        " ", h("button.small.quiet", { onclick: () => this.again(turn) }, t("ask.again"))) : null);
      fill(turn.after,
        turn.stopped ? h("p.soft.fine", t("ask.stopped")) : null,
        turn.error ? fault(turn.error, () => this.again(turn)) : null,
        turn.answer ? this.foot(turn) : turn.stopped ? h("div.row", h("button.small.quiet", { onclick: () => this.again(turn) }, t("retry"))) : null);
      return true;
    });
  }

  stepWords(step, turn) {
    if (turn.sentences.length) return t("step.writing");
    if (!step) return t("step.searching");
    return `${t(step.stage === "retrieve" || step.stage === "assemble" ? "step.reading" : "step.writing")} (${worded(step.note)})`;
  }

  /** A sentence with its citations where their numbers stand. */
  writeSentence(turn, sentence) {
    const byMarker = new Map((sentence.citations || []).map((one) => [one.marker, one]));
    const row = ROW.exec(sentence.text);
    if (row) return this.writeRow(turn, row, byMarker);
    const code = CODE.exec(sentence.text);
    if (code) return add(turn.answerNode, h("pre.code", { tabindex: 0 }, code[1]), code[2] ? this.writeText(h("span"), code[2], byMarker) : null);
    const unsupported = byMarker.size ? [...byMarker.values()].every((one) => one.support === "unsupported") : sentence.text.includes("[?]");
    const heading = HEADING.test(sentence.text) && "heading";
    const node = h("span.sentence", { class: unsupported ? "unsupported" : heading || "", lang: tongue(sentence.text) });
    const text = sentence.text.replace(HEADING, "$1");
    const before = turn.answerNode.lastChild;
    if (before && !text.startsWith("\n")) turn.answerNode.append(" ");
    turn.answerNode.append(this.writeText(node, before?.matches?.(".table, pre") ? text.trimStart() : text, byMarker));
  }

  /** A row of a table that a model wrote; its citations stand in the last cell. */
  writeRow(turn, [, cells, markers], byMarker) {
    const last = turn.answerNode.lastElementChild;
    const table = last?.matches(".table") ? last.firstChild : h("table");
    if (table !== last?.firstChild) turn.answerNode.append(h("div.table", { tabindex: 0 }, table));
    if (RULE.test(cells)) for (const cell of table.rows[0]?.cells ?? []) cell.replaceWith(h("th", { scope: "col" }, [...cell.childNodes]));
    else table.append(h("tr", cells.split(/(?<!\\)\|/).map((one) => this.writeText(h("td"), one.trim().replaceAll("\\|", "|"), byMarker))));
    if (!RULE.test(cells)) this.writeText(table.rows[table.rows.length - 1].lastChild, markers, byMarker);
  }

  writeText(node, text, byMarker) {
    let rest = text;
    for (let found = MARKER.exec(rest); found; found = MARKER.exec(rest)) {
      const before = rest.slice(0, found.index);
      const last = LAST_WORD.exec(before)?.[0] || ""; // it stays on one line with its numbers
      node.append(inline(before.slice(0, before.length - last.length)));
      const cited = [];
      for (let next = found; next && (next === found || next.index === 0); next = MARKER.exec(rest)) {
        const citation = byMarker.get(Number(next[1]));
        cited.push(citation ? this.cite(citation) : next[1] === "?" ? h("span.uncited", { title: t("support.none") }, h("span", support("unsupported"))) : next[0]);
        rest = rest.slice(next.index + next[0].length);
      }
      const end = END.exec(rest)?.[0] || ""; // the numbers stand before the full stop, and read better after it
      rest = rest.slice(end.length);
      add(node, h("span.keep", last, end, cited));
    }
    return add(node, inline(rest));
  }

  cite(citation) {
    const words = t("cite.label", { n: citation.marker, support: t(`support.${citation.support}`), title: named(citation) });
    return h("button.cite", {
      type: "button", "aria-label": words, title: `${named(citation)} · ${t(`support.${citation.support}`)}`, "aria-expanded": "false",
      data: { key: keyOf(citation) }, onclick: (event) => this.openSource(citation, { note: true, enter: !event.detail }),
    }, String(citation.marker), h("span", support(citation.support, { word: citation.support !== "supported" })));
  }

  foot(turn) {
    const { answer } = turn;
    const refused = answer.verdict && !answer.verdict.accepted;
    const citations = answer.citations || [];
    const hits = refused ? (answer.hits || []).slice(0, 5) : [];
    const entry = (one, marker) => h("li", h("button", { onclick: (event) => this.openSource(one, { note: true, enter: !event.detail }) },
      marker ? h("b", marker) : null,
      h("span.words", h("span.title", named(one)), place(one) ? h("span.soft", ` · ${place(one)}`) : null,
        one.support ? [" · ", support(one.support)] : null, h("span.quote", { lang: tongue(one.quote) }, tidy(one.quote) || one.quote))));
    return [
      Object.entries(answer.corrected || {}).map(([typed, meant]) => h("p.note", t("corrected", { typed, meant }))),
      (answer.degraded || []).map((words) => h("p.note", worded(words))),
      citations.length ? h("p.soft.fine", t("model.by", { name: answer.model || t("model.none") })) : null,
      citations.length ? h("ol.sources", { "aria-label": t("sources") }, citations.map((one) => entry(one, `${one.marker}`))) : null,
      hits.length ? [h("p.soft.fine", t("refused.nearest")),
        h("ol.sources", { "aria-label": t("refused.nearest") }, hits.map((hit) => entry({ ...hit, quote: hit.text, support: "" })))] : null,
      h("div.row",
        citations.length ? [h("button.small.quiet", { onclick: () => copy(plain(turn)) }, t("copy.plain")),
          h("button.small.quiet", { onclick: () => copy(markdown(turn)) }, t("copy.markdown"))] : null,
        h("button.small.quiet", { onclick: () => this.again(turn) }, t("retry")),
        h("span.grow"),
        ["up", "down"].map((value) => h("button.small.quiet", {
          "aria-pressed": String(turn.thumb === value), onclick: (event) => this.thumb(turn, value, event.currentTarget),
        }, t(`thumb.${value}`)))),
    ];
  }

  async thumb(turn, value, button) {
    turn.thumb = value;
    for (const one of button.parentNode.querySelectorAll("[aria-pressed]")) one.setAttribute("aria-pressed", String(one === button));
    try {
      await post("/api/v1/feedback", { kind: "thumb", value: value === "up" ? 1 : -1, query: turn.question, answer_id: turn.answer.id || "" });
      toast(t("thumb.thanks"));
    } catch (error) {
      toast(error.message);
    }
  }

  // -------------------------------------------------------------------------------------------- the source

  /** With `enter`, the focus goes there too: who came by the keyboard reads on by the keyboard, and Esc leads back. */
  openSource(citation, { note = false, enter = false } = {}) {
    this.returnTo = document.activeElement?.closest?.(".cite, .sources button") || this.returnTo;
    this.sourceNode?.leave?.();
    this.frame.classList.add("open");
    this.splitter.hidden = this.pane.hidden = false;
    this.sourceNode = sourcePane(this.pane, citation, { close: () => this.closeSource(), behind: [this.talk], enter });
    for (const one of this.turnsNode.querySelectorAll(".cite")) {
      one.setAttribute("aria-expanded", String(one.dataset.key === keyOf(citation)));
    }
    if (note) address.note({ source: keyOf(citation) });
  }

  closeSource({ note = true } = {}) {
    if (this.pane.hidden) return;
    this.sourceNode?.leave?.();
    this.frame.classList.remove("open");
    this.splitter.hidden = this.pane.hidden = true;
    fill(this.pane);
    for (const one of this.turnsNode.querySelectorAll('.cite[aria-expanded="true"]')) one.setAttribute("aria-expanded", "false");
    if (note) address.note({ source: "" });
    this.returnTo?.focus?.();
  }

  /** From the citation one is at, or was at before its source was opened. */
  walk(step) {
    const all = [...this.turnsNode.querySelectorAll(".cite")];
    if (!all.length) return;
    const at = all.indexOf(this.pane.contains(document.activeElement) ? this.returnTo : document.activeElement);
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + step))];
    next.focus({ preventScroll: true });
    reveal(next, "nearest");
  }

  share(value) {
    const share = Math.max(25, Math.min(75, value));
    this.frame.style.setProperty("--share", `${share}%`);
    this.splitter.setAttribute("aria-valuenow", Math.round(share));
    memory.set("share", String(Math.round(share)));
  }

  drag(event) {
    this.splitter.setPointerCapture(event.pointerId);
    const move = (moved) => this.share((moved.clientX / this.frame.clientWidth) * 100);
    this.splitter.addEventListener("pointermove", move);
    this.splitter.addEventListener("pointerup", () => this.splitter.removeEventListener("pointermove", move), { once: true });
  }

  nudge(event) {
    const step = { ArrowLeft: -4, ArrowRight: 4 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.share(Number(this.splitter.getAttribute("aria-valuenow")) + step);
  }

  // -------------------------------------------------------------------------------------------- history

  /** One that cannot be had is told of above a new one, in which one can ask all the same. */
  async load(id) {
    const found = await get(chat(id)).catch((error) => ((this.missing = error), { id: "", turns: [] }));
    if (address.read().query.c !== id) return; // one went on meanwhile
    this.stop();
    kept = { id: found.id, title: found.title, turns: turnsOf(found.turns) };
  }

  async history() {
    try {
      (await part("history")).history();
    } catch (error) {
      toast(error.message);
    }
  }
}

/** What is on show, for the list of conversations. */
export const now = () => ({ id: kept.id, turns: kept.turns.length, view: shown });

function heard(turn, name, data) {
  if (name === "step") turn.steps.push(data);
  else if (name === "sentence") turn.sentences.push(data);
  else if (name === "restart") turn.sentences = [];
  else if (name === "answer") {
    turn.answer = data;
    if (data.conversation_id) kept.id = data.conversation_id;
    if (shown) address.note({ c: kept.id });
  } else if (name === "error") turn.error = data;
  shown?.drawTurn(turn);
}

export const chat = (id) => `${CHATS}/${encodeURIComponent(id)}`;
const keyOf = (one) => `${one.document_id}:${(one.span || [0, 0]).join("-")}`;

function parsed(key) {
  const [document_id, span = "0-0"] = key.split(":");
  return { document_id, span: span.split("-").map(Number), title: "" };
}

/** Questions and answers of a conversation as turns; an answer's sentences are found again by its markers. */
export function turnsOf(said) {
  const turns = [];
  for (const one of said) {
    if (one.role === "user" && turns.at(-1)?.question === one.content) continue; // asked again: the later answer counts
    if (one.role === "user") turns.push({ question: one.content, sentences: [], steps: [], answer: null, stopped: true });
    else if (turns.length) {
      const citations = one.citations || [];
      const pieces = (one.content.match(/\n*```[^\n]*\n[\s\S]*?```(?:\s*\[(?:\d+|\?)\])*|\n?[^\n]+|\n/g) ?? []).flatMap((line) => (ROW.test(line) || CODE.test(line) ? line : line.split(/(?<=[.。!！?？;；…"”』」\]]) (?=\S)/u)));
      const sentences = pieces.map((text) => ({
        text,
        citations: citations.filter((citation) => text.includes(`[${citation.marker}]`)),
      }));
      Object.assign(turns.at(-1), {
        stopped: false, sentences,
        answer: { answer: one.content, citations, id: one.answer_id, model: one.model, stale: one.stale, corrected: one.corrected || {}, degraded: one.degraded || [], hits: one.hits || [], verdict: { accepted: one.accepted !== false } },
      });
    }
  }
  return turns;
}

const source = (one) => `[${one.marker}] ${named(one)}${place(one) ? `, ${place(one)}` : ""}: ${one.quote.replace(/\s+/g, " ")}`;
const plain = ({ question, answer }) => `${question}\n\n${answer.answer}\n\n${answer.citations.map(source).join("\n")}\n`;

export function markdown({ question, answer }) {
  const notes = answer.citations.map((one) => `[^${one.marker}]: **${named(one)}**${place(one) ? `, ${place(one)}` : ""} — “${one.quote.replace(/\s+/g, " ")}” (${one.uri}:${one.span.join("-")})`);
  return `### ${question}\n\n${answer.answer.replace(/```[\s\S]*?```|\[(\d{1,3})\]/g, (all, n) => (n ? `[^${n}]` : all))}\n\n${notes.join("\n")}\n`;
}
