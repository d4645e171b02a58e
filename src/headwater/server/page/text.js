// A stretch of a document's text -> nodes that read like the document, with some of it lit.
//
// Every character of the stretch is in the nodes exactly once and in order: signs of Markdown and the bars of tables are
// there but not shown. So the text of what is lit is the quote, to the letter. Offsets count characters as the server
// does (code points), not halves of them.

import { tongue } from "./i18n.js";
import { h } from "./kit.js";

const INLINE = /(`+)([^`]+?)\1|(\*\*|__)(?=\S)(.+?)\3|(!?)\[([^\]\n]*)\]\(([^)\s]*)[^)\n]*\)|\[\[([^\]\n]+)\]\]/u;
const HEADING = /^ {0,3}(#{1,6})\s+/;
const ITEM = /^(\s*)([-*+•]|\d{1,3}[.)])\s+/;
const QUOTE = /^\s*>\s?/;
const FENCE = /^\s*(```|~~~)/;
const ROW = /^\s*\|.*\|\s*$/;
// What these are read into has the signs of Markdown for headings, items, tables and code, and none within a line.
const MARKED = new Set(["text/html", "application/xhtml+xml", "application/epub+zip"]);
const RULE = /^[\s|:+-]*-[\s|:+-]*$/;

/** The stretch {start, text, blocks, sections, hidden, pages, mime}; `lit` are [start, end] of the whole document. */
export function rendered(stretch, lit = []) {
  return new Writer(stretch, lit).all();
}

/** Only inline, for a sentence of an answer: bold and code, no links of its own. */
export function inline(text) {
  const writer = new Writer({ start: 0, text, blocks: [], sections: [], hidden: [], pages: [], mime: "text/markdown" }, []);
  const node = h("span");
  writer.inline(node, 0, writer.length);
  return node;
}

class Writer {
  constructor(stretch, lit) {
    this.start = stretch.start;
    this.points = /[\ud800-\udfff]/.test(stretch.text) ? Array.from(stretch.text) : stretch.text;
    this.length = this.points.length;
    this.markdown = stretch.mime === "text/markdown";
    this.signs = this.markdown || MARKED.has(stretch.mime);
    const local = (span) => [span[0] - this.start, span[1] - this.start];
    this.lit = lit.map(local).sort((a, b) => a[0] - b[0]);
    this.tables = stretch.blocks.filter((one) => one.kind === "table").map((one) => ({ ...one, span: local(one.span) }));
    this.code = stretch.blocks.filter((one) => one.kind === "code").map((one) => local(one.span));
    this.hidden = stretch.hidden.map(local);
    this.headings = new Map(stretch.sections.map((one) => [one.span[0] - this.start, one]));
    this.pages = new Map(stretch.pages.map(([page, at]) => [at - this.start, page]));
  }

  cut(start, end) {
    const part = this.points.slice(start, end);
    return typeof part === "string" ? part : part.join("");
  }

  /** Text, lit where it is to be. The only place that writes what the document says. */
  leaf(node, start, end, spec = "") {
    let at = start;
    const put = (from, to, isLit) => {
      if (to <= from) return;
      const text = document.createTextNode(this.cut(from, to));
      const inner = spec ? h(spec, text) : text;
      node.append(isLit ? h("mark.lit", { data: { at: this.start + from } }, inner) : inner);
    };
    for (const [low, high] of this.lit) {
      if (high <= at || low >= end) continue;
      put(at, Math.max(low, at), false);
      put(Math.max(low, at), Math.min(high, end), true);
      at = Math.min(high, end);
    }
    put(at, end, false);
  }

  inline(node, start, end) {
    if (!this.markdown) return this.leaf(node, start, end);
    let at = start;
    while (at < end) {
      const text = this.cut(at, end);
      const found = INLINE.exec(text);
      if (!found) break;
      const from = at + Array.from(text.slice(0, found.index)).length;
      const to = from + Array.from(found[0]).length;
      this.leaf(node, at, from);
      const [, tick, , strong, , picture, words, target, wiki] = found;
      if (tick) this.marked(node, from, to, tick.length, tick.length, h("code"));
      else if (strong) this.marked(node, from, to, 2, 2, h("strong"));
      else if (wiki) this.marked(node, from, to, 2, 2, h("span.wikilink"));
      else {
        const before = picture.length + 1;
        const after = to - from - before - Array.from(words).length;
        const known = !picture && /^https?:\/\//i.test(target);
        const holder = known ? h("a", { href: target, rel: "noopener noreferrer", target: "_blank" }) : h("span");
        this.marked(node, from, to, before, after, holder);
      }
      at = to;
    }
    this.leaf(node, at, end);
  }

  marked(node, start, end, before, after, holder) {
    this.leaf(node, start, start + before, "span.syntax");
    this.leaf(holder, start + before, end - after);
    node.append(holder);
    this.leaf(node, end - after, end, "span.syntax");
  }

  /** Lines as [start, end] with their line break. */
  lines() {
    const found = [];
    let from = 0;
    for (let at = 0; at < this.length; at += 1) {
      if (this.points[at] === "\n") {
        found.push([from, at + 1]);
        from = at + 1;
      }
    }
    if (from < this.length) found.push([from, this.length]);
    return found;
  }

  all() {
    const root = h("div.prose", { class: this.markdown ? "markdown" : this.signs ? "marked" : "plain", lang: tongue(this.cut(0, this.length)) });
    const lines = this.lines();
    let place = 0;
    while (place < lines.length) {
      for (const [at, page] of this.pages) {
        if (at >= lines[place][0] && at < lines[place][1]) root.append(h("div.page-mark", { data: { page } }));
      }
      place = this.block(root, lines, place);
    }
    return root;
  }

  block(root, lines, place) {
    const [start, end] = lines[place];
    const line = this.cut(start, end);
    const until = (test) => {
      let next = place + 1;
      while (next < lines.length && test(this.cut(...lines[next]), lines[next]) && !this.pages.has(lines[next][0])) next += 1;
      return next;
    };
    const inside = (span) => start >= span[0] && start < span[1];
    const hidden = this.hidden.find(inside);
    if (hidden) return this.whole(root, lines, until((_, at) => at[0] < hidden[1]), place, h("pre.quiet"));
    const table = this.tables.find((one) => inside(one.span));
    if (ROW.test(line) && (table || this.signs)) {
      const next = until((text, at) => ROW.test(text) && (!table || at[0] < table.span[1]));
      this.table(root, lines.slice(place, next), table);
      return next;
    }
    const code = this.code.find(inside);
    if (code) return this.fenced(root, lines, until((_, at) => at[0] < code[1]), place);
    if (this.signs && FENCE.test(line)) {
      let open = true;
      const next = until((text) => {
        const goes = open;
        if (FENCE.test(text)) open = false;
        return goes;
      });
      return this.fenced(root, lines, next, place);
    }
    if (!line.trim()) {
      this.leaf(root, start, end);
      return place + 1;
    }
    const signs = this.signs && HEADING.exec(line);
    const section = this.headings.get(start + (signs ? 0 : line.length - line.trimStart().length));
    if (signs || (section && !this.signs && line.trim().length <= 200)) {
      const level = Math.min(6, (signs ? signs[1].length : section.level) + 2);
      const node = h(`h${level}`);
      if (signs) this.leaf(node, start, start + signs[0].length, "span.syntax");
      this.inline(node, start + (signs ? signs[0].length : 0), end);
      root.append(node);
      return place + 1;
    }
    if (this.signs && ITEM.test(line)) {
      const next = until((text) => ITEM.test(text));
      const list = h("ul");
      for (const [from, to] of lines.slice(place, next)) {
        const sign = ITEM.exec(this.cut(from, to));
        const item = h("li", { vars: { level: Math.min(4, Math.floor(sign[1].length / 2)) } });
        this.leaf(item, from, from + sign[0].length, "span.bullet");
        this.inline(item, from + sign[0].length, to);
        list.append(item);
      }
      root.append(list);
      return next;
    }
    if (this.markdown && QUOTE.test(line)) {
      const next = until((text) => QUOTE.test(text));
      const quote = h("blockquote");
      for (const [from, to] of lines.slice(place, next)) {
        const sign = QUOTE.exec(this.cut(from, to));
        this.leaf(quote, from, from + sign[0].length, "span.syntax");
        this.inline(quote, from + sign[0].length, to);
      }
      root.append(quote);
      return next;
    }
    const next = this.signs
      ? until((text) => text.trim() && !HEADING.test(text) && !ITEM.test(text) && !FENCE.test(text) && !ROW.test(text) && !QUOTE.test(text))
      : place + 1;
    const paragraph = h("p");
    this.inline(paragraph, start, lines[next - 1][1]);
    root.append(paragraph);
    return next;
  }

  whole(root, lines, next, place, node) {
    this.leaf(node, lines[place][0], lines[next - 1][1]);
    root.append(node);
    return next;
  }

  /** Code, without the lines that fence it in; those that are all there is are code themselves. */
  fenced(root, lines, next, place) {
    const node = h("pre.code", { tabindex: 0 });
    const fence = (at) => this.signs && next - place > 2 && FENCE.test(this.cut(...lines[at]));
    const [first, last] = [place + (fence(place) ? 1 : 0), next - (fence(next - 1) ? 1 : 0)];
    this.leaf(node, lines[place][0], lines[first][0], "span.syntax");
    this.leaf(node, lines[first][0], lines[last - 1][1]);
    if (last < next) this.leaf(node, ...lines[last], "span.syntax");
    root.append(node);
    return next;
  }

  table(root, lines, block) {
    const rule = lines.length > 1 && RULE.test(this.cut(...lines[1]));
    const named = Boolean(rule || (block && block.header));
    const body = h("tbody");
    const table = h("table");
    lines.forEach((line, number) => {
      if (number && RULE.test(this.cut(...line))) {
        this.leaf(table.querySelector("tr:last-of-type > :last-child") ?? table, ...line, "span.syntax");
        return;
      }
      const row = h("tr");
      const cells = this.cells(...line);
      cells.forEach(([from, low, high, to]) => {
        const cell = named && number === 0 ? h("th", { scope: "col" }) : h("td");
        this.leaf(cell, from, low, "span.syntax");
        this.cell(cell, low, high);
        this.leaf(cell, high, to, "span.syntax");
        row.append(cell);
      });
      if (named && number === 0) table.append(h("thead", row));
      else body.append(row);
    });
    if (body.childNodes.length) table.append(body);
    root.append(h("div.table", { tabindex: 0 }, table));
  }

  /** A bar that is part of a cell is written with a stroke before it. */
  cell(node, start, end) {
    let at = start;
    for (let place = start; place < end - 1; place += 1) {
      if (this.points[place] === "\\" && this.points[place + 1] === "|") {
        this.inline(node, at, place);
        this.leaf(node, place, place + 1, "span.syntax");
        at = place + 1;
      }
    }
    this.inline(node, at, end);
  }

  /** [where its signs begin, its words, their end, where the next cell begins] for every cell of a row. */
  cells(start, end) {
    const bars = [];
    for (let at = start; at < end; at += 1) if (this.points[at] === "|" && this.points[at - 1] !== "\\") bars.push(at);
    const blank = (at) => /\s/.test(this.points[at]);
    const found = [];
    for (let number = 0; number + 1 < bars.length; number += 1) {
      let low = bars[number] + 1;
      let high = bars[number + 1];
      while (low < high && blank(low)) low += 1;
      while (high > low && blank(high - 1)) high -= 1;
      const from = number ? bars[number] : start;
      found.push([from, low, high, number + 2 === bars.length ? end : bars[number + 1]]);
    }
    return found.length ? found : [[start, start, end, end]];
  }
}
