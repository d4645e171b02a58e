// A passage -> its document beside what cites it, lit at the very words, as text or as pictures of its pages.

import { blob, get } from "./api.js";
import { t } from "./i18n.js";
import { address, fill, h, reveal } from "./kit.js";
import { fault, named, place, toast } from "./said.js";
import { rendered } from "./text.js";

const AROUND = 6000; // characters on either side of a passage that come with it
const PAGE_WIDTH = 1000; // pixels of a page's picture
export const path = (id, ...rest) => ["/api/v1/documents", id, ...rest].map((part, at) => (at ? encodeURIComponent(part) : part)).join("/");

/** What was begun by a press: that it failed is said, and what is shown stays. */
export const tried = (work) => work.catch((error) => error.name === "AbortError" || toast(error.message));

/** Show a passage in its document inside `node`; `leave` lets go of what was fetched. */
export function sourcePane(node, passage, { close, behind = [], enter = false }) {
  const body = h("div.body", { tabindex: 0, role: "region", "aria-label": t("source.title") }, h("p.soft", t("loading")));
  const title = h("h2", named(passage));
  const where = h("p.soft.fine", place(passage));
  const tools = h("div.row");
  fill(node, h("header", h("div.row.apart", title, h("button.small", { onclick: close }, t("close"))), where, tools), body);
  swipe(node, close);
  const narrow = matchMedia("(max-width: 860px)");
  const cover = (now) => { // a sheet over the rest: what it hides cannot be reached
    for (const one of [...behind, document.querySelector(".places")]) if (one) one.inert = now;
  };
  const turned = () => cover(narrow.matches);
  narrow.addEventListener("change", turned);
  turned();
  if (enter || narrow.matches) body.focus({ preventScroll: true });
  const reader = new Reader(body, passage.document_id);
  const open = async () => {
    try {
      const about = await reader.about();
      title.textContent = named(about);
      const section = passage.section || sectionAt(about.sections, passage.span[0])?.path || "";
      const pages = passage.pages?.length ? passage.pages : reader.pagesOf(passage.span);
      where.textContent = [about.collection, place({ section, pages, title: about.title })].filter(Boolean).join(" · ");
      const show = (how) => {
        for (const one of tools.querySelectorAll("[data-how]")) one.setAttribute("aria-pressed", String(one.dataset.how === how));
        return how === "page" ? reader.pages(passage.span, passage.quote) : reader.text(passage.span);
      };
      const choice = (how) => h("button", { data: { how }, "aria-pressed": "false", onclick: () => tried(show(how)) }, t(`source.${how}`));
      fill(tools, about.pictures ? h("div.choice", { role: "group", "aria-label": t("source.how") }, choice("page"), choice("text")) : null,
        h("a.button.small.quiet", { href: address.to("document", [about.id], { at: passage.span.join("-") }) }, t("source.open")));
      await show(about.pictures ? "page" : "text");
    } catch (error) {
      if (error.name !== "AbortError") fill(body, fault(error, open));
    }
  };
  open();
  return { leave: () => (narrow.removeEventListener("change", turned), cover(false), reader.leave()) };
}

/** A sheet on a small screen goes away when it is pulled down. */
function swipe(node, close) {
  const head = node.firstChild;
  let from = null;
  head.addEventListener("touchstart", (event) => (from = event.touches[0].clientY), { passive: true });
  head.addEventListener("touchend", (event) => {
    if (from !== null && event.changedTouches[0].clientY - from > 60) close();
    from = null;
  });
}

const sectionAt = (sections, at) => sections.filter((one) => one.span[0] <= at && at < one.span[1]).at(-1);

/** Writes one document into a box: its text around a passage, or pictures of its pages. */
export class Reader {
  constructor(box, id) {
    Object.assign(this, { box, id, urls: [], abort: new AbortController() });
  }

  leave() {
    this.abort.abort();
    for (const url of this.urls) URL.revokeObjectURL(url);
  }

  async about() {
    this.told ??= await get(path(this.id), {}, this.abort.signal);
    return this.told;
  }

  pagesOf(span) {
    const starts = this.told.page_starts || [];
    const found = starts.map((at, number) => [number + 1, at, starts[number + 1] ?? Infinity]).filter(([, low, high]) => low < Math.max(span[1], span[0] + 1) && high > span[0]);
    return found.length ? [...new Set([found[0][0], found.at(-1)[0]])] : [];
  }

  async stretch(start, end) {
    const found = await get(path(this.id, "stretch"), { start: Math.max(0, start), end }, this.abort.signal);
    return found;
  }

  /** The text around a span; more of it in either direction by a button. */
  async text(span) {
    const lit = span[1] > span[0] ? [span] : [];
    let low = Math.max(0, span[0] - AROUND);
    let high = span[1] + AROUND;
    let busy = false;
    const draw = async (grown) => { // "" at first, else the side on which there is more now
      const found = await this.stretch(low, high);
      [low, high] = [found.start, found.end];
      const more = (label, side, change) => h("button.small", { onclick: async () => {
        if (busy) return;
        busy = true;
        const before = [low, high];
        change();
        await tried(draw(side).catch((error) => (([low, high] = before), Promise.reject(error)))).finally(() => (busy = false));
      } }, label);
      const prose = rendered(found, lit);
      for (const mark of prose.querySelectorAll(".page-mark")) mark.dataset.label = t("page.n", { n: mark.dataset.page });
      const moving = getComputedStyle(this.box).overflowY === "auto" ? this.box : document.scrollingElement;
      const [top, height] = [moving.scrollTop, moving.scrollHeight];
      fill(this.box,
        found.start > 0 ? more(t("source.earlier"), "earlier", () => (low = Math.max(0, low - 4 * AROUND))) : null,
        prose,
        found.end < found.total ? more(t("source.later"), "later", () => (high += 4 * AROUND)) : null);
      if (!found.total) fill(this.box, h("p.soft", t("document.empty")));
      // What is being read stays where it is.
      if (grown) moving.scrollTop = top + (grown === "earlier" ? moving.scrollHeight - height : 0);
      else reveal([...this.box.querySelectorAll("mark.lit")].find((mark) => mark.offsetWidth)); // not a bar that is not shown
    };
    await draw("");
  }

  /** Pictures of the pages that a span stands on, its lines marked; the words above it for who cannot see it. */
  async pages(span, quote) {
    const { lines, text } = await get(path(this.id, "boxes"), { start: span[0], end: span[1] }, this.abort.signal);
    const numbers = lines.length ? [...new Set(lines.map((one) => one.page))] : this.pagesOf(span).slice(0, 1);
    let shown = numbers.length ? [...numbers] : [1];
    const draw = async () => {
      const sheets = shown.map((page) => h("figure.sheet-page", { data: { page }, "aria-label": t("page.n", { n: page }) }));
      const words = quote || text;
      const last = this.told.page_starts.length;
      const turn = (label, page) => h("button.small", { onclick: () => ((shown = [page]), tried(draw())) }, label);
      fill(this.box,
        words ? h("blockquote.quoted", h("mark.lit", words)) : null,
        h("div.row.apart",
          shown[0] > 1 ? turn(t("page.previous"), shown[0] - 1) : h("span"),
          h("span.soft.fine", t("page.of", { n: shown.join("–"), total: last })),
          shown.at(-1) < last ? turn(t("page.next"), shown.at(-1) + 1) : h("span")),
        sheets);
      if (document.activeElement === document.body) this.box.focus({ preventScroll: true }); // at the last page its button is gone
      await Promise.all(sheets.map((sheet) => this.picture(sheet, lines)));
      if (shown.some((page) => numbers.includes(page))) reveal(this.box.querySelector(".box"));
    };
    await draw();
  }

  async picture(sheet, lines) {
    const page = Number(sheet.dataset.page);
    let found;
    try {
      found = await blob(path(this.id, "pages", String(page)), { width: PAGE_WIDTH }, this.abort.signal);
    } catch (error) {
      if (error.name !== "AbortError") fill(sheet, fault(error, () => this.picture(sheet, lines)));
      return;
    }
    const url = URL.createObjectURL(found);
    this.urls.push(url);
    const image = h("img", { src: url, alt: t("page.n", { n: page }) });
    await image.decode().catch(() => null);
    const of = (share) => `${share * 100}%`;
    fill(sheet, image, lines.filter((one) => one.page === page).map(({ left, top, right, bottom }) =>
      h("div.box", { "aria-hidden": "true", vars: { left: of(left), top: of(top), width: of(right - left), height: of(bottom - top) } })));
  }
}
