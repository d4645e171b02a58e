// A document as a place of its own: what is known of it, its sections, its text or its pages, and how it was cut.

import { blob, get, may, post } from "./api.js";
import { t, worded } from "./i18n.js";
import { add, address, arrows, fill, h } from "./kit.js";
import { bytes, meter, named, number, percent, place, state, tidy, toast, unprefixed, when } from "./said.js";
import { path, Reader, tried } from "./source.js";

export async function show(root, { rest, query, back }) {
  const body = h("div.body");
  const reader = new Reader(body, rest[0]);
  const page = h("div.page", h("p.soft", t("loading")));
  fill(root, page);
  const about = await reader.about();
  if (root.isConnected) document.title = `${named(about)} · Headwater`;
  const spanOf = (asked) => (asked.at || "0-0").split("-").map(Number);
  let span = spanOf(query);
  let shown = "text";
  const draw = () => (shown === "page" ? reader.pages(span, "") : reader.text(span));
  const to = (target) => {
    address.note({ at: target.join("-") });
    span = target;
    return tried(draw());
  };
  const chunks = h("ol.chunks");
  fill(page, head(about), h("div.reader",
    h("nav.side.tree", { "aria-label": t("document.sections"), tabindex: 0 }, h("details", { open: matchMedia("(min-width: 1101px)").matches }, h("summary", h("h2", t("document.sections"))),
      about.sections.length ? arrows(h("ul", { role: "tree", "aria-label": t("document.sections") }, about.sections.slice(0, 500).map((one) => h("li", { role: "none" },
        h("button", { role: "treeitem", "aria-level": Math.max(1, one.level), vars: { level: Math.max(0, one.level - 1) }, onclick: () => to([one.span[0], one.span[0] + one.title_chars]) }, one.title)))), { single: true }) : h("p.soft.fine", t("document.flat")))),
    h("section", { "aria-label": t("document.text") }, about.pictures ? how((name) => ((shown = name), tried(draw()))) : null, body),
    h("section.side", { "aria-label": t("document.chunks"), tabindex: 0 }, h("h2", t("document.chunks")), chunks)));
  await Promise.all([reader.text(span), passages(chunks, about, to)]);
  return { leave: () => reader.leave(), changed: (now) => ((span = spanOf(now)), tried(draw())), keys: { ...walking(chunks), close: back } };
}

function how(work) {
  const choice = (name) => h("button", { "aria-pressed": String(name === "text"), onclick: (event) => {
    for (const one of event.target.parentNode.children) one.setAttribute("aria-pressed", String(one === event.target));
    work(name);
  } }, t(`source.${name}`));
  return h("div.choice", { role: "group", "aria-label": t("source.how") }, choice("text"), choice("page"));
}

function head(about) {
  const score = about.coverage?.score;
  const facts = [
    [t("document.kind"), about.kind],
    [t("collection"), about.collection],
    [t("document.when"), when(about.updated || about.created)],
    [t("document.size"), `${bytes(about.size)} · ${t("document.chars", { n: number(about.chars) })} · ${t("document.chunks.n", { n: number(about.chunk_count) })}`],
    [t("document.tags"), (about.tags || []).join(", ")],
    [t("document.from"), unprefixed(about.uri)],
    [t("document.alike"), about.alike?.length ? about.alike.map((one) => h("div", h("a", { href: address.to("document", [one.id]) }, one.title), ` ${percent(one.share)}`)) : ""],
    [t("document.inside"), about.attachments?.length ? about.attachments.map((one) => h("div", h("a", { href: address.to("document", [one.id]) }, one.title))) : ""],
  ];
  const again = async () => {
    try {
      await post(path(about.id, "reindex"));
      toast(t("document.reindexing", { title: named(about) }));
    } catch (error) {
      toast(error.message);
    }
  };
  return h("div.stack",
    h("p.fine", h("a", { href: address.to("library") }, `← ${t("place.library")}`)),
    h("div.row.apart", h("h1.wrap", named(about)), h("span.row", about.archived ? h("span.tag", t("state.archived")) : null, state(about.state))),
    about.error ? h("p.note.poor", worded(unprefixed(about.error))) : null,
    about.problems.length ? h("ul.stack", about.problems.map((one) => h("li.note", worded(one)))) : null,
    h("div.row",
      score !== undefined ? h("div.grow", meter(t("document.coverage"), score, percent(score))) : null,
      about.original ? h("button.small", { onclick: () => download(about) }, t("document.original")) : null,
      may("write") ? h("button.small", { onclick: again }, t("reindex")) : null),
    h("details", h("summary", t("document.facts")), h("dl.facts", facts.filter(([, value]) => value && value.length !== 0).map(([name, value]) => [h("dt", name), h("dd", value)]))));
}

async function download(about) {
  try {
    const url = URL.createObjectURL(await blob(`/api/v1/datasets/${encodeURIComponent(about.dataset_id)}/documents/${encodeURIComponent(about.id)}`));
    const link = h("a", { href: url, download: about.name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  } catch (error) {
    toast(error.message);
  }
}

async function passages(list, about, to) {
  let page = 1;
  const more = h("button.small", { onclick: () => tried(load()) }, t("more"));
  const load = async () => {
    more.disabled = true;
    const found = await get(path(about.id, "passages"), { page }).finally(() => (more.disabled = false));
    more.remove();
    add(list, found.passages.map((one) => h("li", h("button", { onclick: () => to(one.span) },
      h("span.soft", [t("document.chunk.n", { n: one.number }), place({ ...one, title: about.title }), one.kind === "prose" ? "" : t(`kind.${one.kind}`)].filter(Boolean).join(" · ")),
      h("span.start", tidy(one.text))))));
    page += 1;
    if (list.childElementCount < found.total) list.append(more);
    if (!found.total) fill(list, h("li.soft.fine", t("document.no.chunks")));
  };
  await load();
}

function walking(list) {
  const step = (by) => {
    const all = [...list.querySelectorAll("button")];
    const at = all.indexOf(document.activeElement);
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
    next?.focus();
  };
  return { next: () => step(1), previous: () => step(-1) };
}
