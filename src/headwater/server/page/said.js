// What is said in passing: toasts with an undo, errors with what to do, and how things are put in words.

import { h } from "./kit.js";
import { language, t, worded } from "./i18n.js";

const FORBIDDEN = 403; // the same again is refused again
const STAY_SECONDS = 6;
const UNDO_SECONDS = 10; // longer: it takes a while to get there with the keyboard
const waiting = new Set(); // what can still be undone, the latest last: {undo, end}
const SIGNS = { supported: "●", weak: "◐", unsupported: "○" };
const STATES = { completed: "●", indexed: "◐", processing: "◐", pending: "○", empty: "△", failed: "✕", cancelled: "–", stopping: "–" };

/** A line at the corner. With `undo`, `done` happens only when it goes away unused; it stays while it is looked at. */
export function toast(text, { undo, done, progress } = {}) {
  const words = text === "offline" ? t("offline") : worded(text);
  const line = h("span.grow", words);
  const meter = progress ? h("progress", { max: 1, value: 0, "aria-label": words }) : null;
  let near = false; // the pointer came to it, rather than it to the pointer
  const node = h("div.toast", { onpointermove: (event) => (near ||= Boolean(event.movementX || event.movementY)), onpointerleave: () => (near = false) }, line, meter);
  let over = false;
  let timer = 0;
  const end = (happened) => {
    if (over) return;
    over = true;
    waiting.delete(open);
    node.remove();
    if (happened) done?.();
  };
  const open = { undo: () => (end(false), undo()), end: () => end(true) };
  const stay = () => {
    clearTimeout(timer);
    timer = setTimeout(() => (near || node.matches(":focus-within") ? stay() : end(true)), (undo ? UNDO_SECONDS : STAY_SECONDS) * 1000);
  };
  if (undo) {
    waiting.add(open);
    node.append(h("button.small", { onclick: open.undo, "aria-keyshortcuts": "u" }, t("undo")));
  }
  if (!undo && !progress) node.append(h("button.small", { onclick: () => end(true), "aria-label": t("dismiss") }, "✕"));
  const toasts = document.querySelector(".toasts");
  toasts?.append(node);
  document.querySelector("dialog[open]")?.append(toasts); // what is under a dialog cannot be pressed
  if (!progress) stay();
  return {
    say: (words) => (line.textContent = words),
    at: (share) => meter && (share === null ? meter.removeAttribute("value") : (meter.value = share)),
    end: () => end(true),
    linger: stay,
  };
}

/** Take back the latest thing that can be taken back. */
export const undoLast = () => [...waiting].at(-1)?.undo();

// Who leaves the page does not take anything back any more.
addEventListener("pagehide", () => {
  for (const one of [...waiting]) one.end();
});

/** A dialog with a title; `close` in the second argument's call. It is gone when it closes, whichever way. */
export function modal(title, content, { name = "", actions } = {}) {
  const id = "dialog-title";
  const close = () => dialog.close();
  const dialog = h("dialog", { class: name, "aria-labelledby": id, onclose: () => {
    const toasts = dialog.querySelector(".toasts");
    if (toasts) document.body.append(toasts);
    dialog.remove();
  } }, h("div.stack", h("div.row.apart", h("h2.wrap", { id }, title), actions === null ? null : h("button.quiet", { onclick: close }, t("close"))), content(close)));
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** What went wrong, what to do, and an id to name it by. */
export function fault(error, again) {
  const offline = error.message === "offline";
  return h("div.note.poor", { role: "alert" },
    h("p", offline ? t("offline") : worded(error.message || String(error))),
    h("div.row",
      again && error.status !== FORBIDDEN ? h("button.small", { onclick: again }, t("retry")) : null,
      error.id ? h("button.small.quiet", { onclick: () => copy(error.id) }, t("copy.id", { id: error.id })) : null));
}

/** Put on the clipboard; where the browser forbids it, say so. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast(t("copied"));
  } catch {
    toast(t("copy.failed"));
  }
}

/** The sign of how well a sentence is supported, with its word. */
export function support(label, { word = true } = {}) {
  return [h("span", { class: `mark-${label}`, "aria-hidden": "true" }, SIGNS[label] || "○"), word ? ` ${t(`support.${label}`)}` : null];
}

/** A document's state as a sign and a word. */
export function state(name) {
  return h("span.state", { data: { sign: STATES[name] || "○", state: name } }, t(`state.${name}`));
}

/** When, as the reader says it. */
export function when(moment, { time = true } = {}) {
  const date = new Date(moment);
  if (!moment || Number.isNaN(date.getTime())) return "";
  const day = { year: "numeric", month: "short", day: "numeric" };
  return date.toLocaleString(language() === "zh" ? "zh-CN" : "en-GB", time ? { ...day, hour: "2-digit", minute: "2-digit" } : day);
}

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  let size = Number(count) || 0;
  while (size >= 1000 && step < units.length - 1) {
    size /= 1000;
    step += 1;
  }
  return `${size >= 100 || step === 0 ? Math.round(size) : size.toFixed(1)} ${units[step]}`;
}

export const number = (value) => Number(value ?? 0).toLocaleString(language() === "zh" ? "zh-CN" : "en-GB");
export const percent = (share) => `${Math.round(share * 100)} %`;
export const milliseconds = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${value >= 10 ? Math.round(value) : value.toFixed(1)} ms`);

/** Where in a document: its section, without the title that stands beside it, and its pages. */
export function place({ section, pages, title }) {
  const told = [section === title ? "" : section?.startsWith(`${title} > `) ? section.slice(title.length + 3) : section];
  if (pages?.length) told.push(pages.length > 1 ? t("pages.from", { from: pages[0], to: pages.at(-1) }) : t("page.n", { n: pages[0] }));
  return told.filter(Boolean).join(" · ");
}

/** Without the word that says how a document came; people know it by the name alone. */
export const unprefixed = (text) => text.replace(/\b(?:upload|sample|text):\/*(?=\S)/g, "");

/** The name of a thing for a person: its title, else the end of its address. */
export const named = (one) => unprefixed(one.title || "") || one.name || String(one.uri || "").split("/").pop() || t("untitled");

/** A meter of 0 to 1 that a screen reader can read. */
export function meter(label, share, words) {
  const width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("div.meter", h("span", label), h("span", words), h("span.track", { "aria-hidden": "true" }, h("i", { vars: { share: width } })));
}

/** A passage as one line of plain words, for a list: without the signs of Markdown, its rows one after another. */
export const tidy = (text) => text.replace(/^#{1,6} .*\n+(?=\S)/, "")
  .replace(/!?\[([^[\]\n]*)\]\([^)\s]*\)|^```.*$|`|\*\*|\[\[|\]\]/gm, "$1")
  .replace(/^[#>*-]+ |\|?[-:| ]*-{3,}[-:| ]*\|?/gm, " ").replace(/(?:\s*\|)+\s*/g, " · ").replace(/^[\s·]+|[\s·]+$/g, "");

/** Questions to begin with, those in the reader's language first. */
export const examples = (about) => [...(about?.examples ?? [])].sort((a, b) => (b.language === language()) - (a.language === language()));

/** Save text as a file. */
export function save(name, text, mime = "text/plain") {
  const url = URL.createObjectURL(new Blob([text], { type: mime }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
