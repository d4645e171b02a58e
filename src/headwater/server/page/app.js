// The shell: the bar, the five places, what is said in passing, keys of the keyboard, and files dropped anywhere.

import { app, get, Failed, may, part } from "./api.js";
import { adding, addUrls, dropped, follow } from "./adding.js";
import { language, learn, setLanguage, t, worded } from "./i18n.js";
import { address, fill, h, memory } from "./kit.js";
import { fault, modal, toast, undoLast } from "./said.js";

const PLACES = ["ask", "search", "library", "quality", "system"];
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
let current = null; // what the view on show left behind: {leave, keys, changed}
let shown = "";
let places = 0; // that were on show before this one
const skip = h("a.skip", { href: "#main", onclick: (event) => (event.preventDefault(), document.querySelector("main").focus()) });
const header = h("header.bar");
const toasts = h("div.toasts", { role: "status", "aria-live": "polite" });

function theme() {
  const chosen = memory.get("theme");
  root.dataset.theme = chosen || (dark.matches ? "dark" : "light");
}

function bar() {
  const here = address.read().place;
  const place = here === "document" ? "library" : here;
  const link = (name) =>
    h("a", { href: address.to(name), "aria-current": name === place ? "page" : null }, t(`place.${name}`));
  const other = language() === "zh" ? "en" : "zh";
  const isDark = root.dataset.theme === "dark";
  fill(header,
    h("a.name", { href: address.to("ask"), "aria-label": "Headwater" }, logo(), h("span", "Headwater")),
    h("nav.places", { "aria-label": t("places") }, PLACES.map(link)),
    h("div.tools",
      h("button.quiet", { lang: other, data: { what: "language" }, onclick: () => choose("language", other), "aria-label": t("language.other") },
        other === "zh" ? "中文" : "English"),
      h("button.quiet", { data: { what: "theme" }, onclick: () => choose("theme", isDark ? "light" : "dark") }, t(isDark ? "theme.light" : "theme.dark")),
      h("button.quiet", { onclick: shortcuts, "aria-label": t("keys.title"), title: t("keys.title") }, "?"),
    ));
}

function logo() {
  const wave = (y) => h("path", { d: `M4 ${y}c3-3 5 3 8 0s5 3 8 0` });
  return h("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, h("path", { d: "M12 3v5" }), wave(12), wave(18));
}

function choose(what, value) {
  memory.set(what, value);
  if (what === "language") {
    setLanguage(value);
    shown = "";
    show();
  } else {
    theme();
    bar();
  }
  header.querySelector(`[data-what="${what}"]`).focus();
}

async function show() {
  const { place, rest, query } = address.read();
  const name = place === "document" ? "document" : PLACES.includes(place) ? place : "ask";
  const key = `${name}/${rest.join("/")}`;
  if (key === shown && current?.changed) return current.changed(query);
  places += shown ? 1 : 0;
  shown = key;
  current?.leave?.();
  current = null;
  const main = frame(name);
  try {
    const [view] = await Promise.all([part(name), name === "ask" ? null : learn()]);
    if (!main.isConnected) return;
    const made = (await view.show(main, { rest, query, back: places ? () => history.back() : () => (location.hash = address.to("library")) })) || {};
    if (main.isConnected) current = made;
    else made.leave?.(); // another one came on show while it was fetched
  } catch (error) {
    fill(main, h("div.page", fault(error, () => ((shown = ""), show()))));
    if (!(error instanceof Failed)) throw error;
  }
}

/** The shell around a view; it is there before anything was asked of the server. What is open over it stays open. */
function frame(name) {
  root.lang = language() === "zh" ? "zh-CN" : "en";
  const place = t(`place.${PLACES.includes(name) ? name : "library"}`);
  document.title = `${place} · Headwater`;
  skip.textContent = t("skip");
  bar();
  const main = h("main", { id: "main", tabindex: -1, "aria-label": place });
  const before = document.querySelector("main");
  const within = before?.contains(document.activeElement);
  if (before) before.replaceWith(main);
  else document.body.replaceChildren(skip, header, main, toasts);
  if (within) main.focus({ preventScroll: true }); // on from here, not from the top of the page
  if (before) scrollTo(0, 0);
  document.body.dataset.drop = t("add.drop");
  return main;
}

/** Who is asking and what there is; everything else waits for it only where it must. */
export async function look() {
  const about = await get("/api/v1/about");
  app.set({ about, collections: about.collections, signIn: false });
}

// ---------------------------------------------------------------------------------------------- the keyboard

function typing(target) {
  return target.closest?.("input, textarea, select, dialog, [contenteditable]");
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (!document.querySelector("dialog[open], :popover-open")) current?.keys?.close?.();
    return;
  }
  if (typing(event.target) || memory.get("keys") === "off") return;
  const action = { "/": "ask", j: "next", k: "previous" }[event.key];
  if (event.key === "?") shortcuts();
  else if (event.key === "u") undoLast();
  else if (action === "ask" && !current?.keys?.ask) location.hash = address.to("ask");
  else if (action) current?.keys?.[action]?.();
  else return;
  event.preventDefault();
}

function shortcuts() {
  const rows = [["/", "keys.ask"], ["j  k", "keys.walk"], ["Enter", "keys.enter"], ["Esc", "keys.close"], ["u", "keys.undo"], ["?", "keys.list"]];
  const use = h("input", { type: "checkbox", checked: memory.get("keys") !== "off", onchange: (event) => memory.set("keys", event.target.checked ? "" : "off") });
  modal(t("keys.title"), () => [h("label.tick", use, t("keys.use")), h("dl.facts", rows.map(([key, what]) => [h("dt", key.split("  ").map((one) => [h("kbd", one), " "])), h("dd", t(what))]))]);
}

// ---------------------------------------------------------------------------------------------- signing in

function signIn() {
  if (document.querySelector("dialog.sign-in")) return;
  const key = h("input", { id: "key", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const said = h("p.problems.poor", { role: "alert" });
  const send = async (event) => {
    event.preventDefault();
    memory.set("key", encodeURI(key.value.trim())); // a header has no other letters
    try {
      await look();
      dialog.close();
      shown = "";
      await show();
      follow();
    } catch (error) {
      memory.set("key", "");
      await learn();
      said.textContent = error.message === "offline" ? t("offline") : worded(error.message);
      key.select();
    }
  };
  const dialog = modal(t("signin.title"), () => h("form.stack", { onsubmit: send },
    h("p.soft", t("signin.lead"), " ", h("code", "headwater key create")),
    h("label.field", h("span.label", t("signin.key")), key),
    said,
    h("div.row", h("button.primary", { type: "submit" }, t("signin.do")))), { name: "sign-in", actions: null });
  dialog.addEventListener("cancel", (event) => event.preventDefault()); // there is nothing to see without a key
  dialog.addEventListener("close", () => app.get("signIn") && signIn()); // a browser lets a second Esc through
  key.focus();
}

// ---------------------------------------------------------------------------------------------- begin

function dragging(event) {
  if (![...(event.dataTransfer?.types || [])].includes("Files")) return;
  event.preventDefault();
  document.body.classList.toggle("dropping", may("write") && (event.type !== "dragleave" || event.relatedTarget !== null));
}

/** Files, wherever one is; an address, in the library. */
function pasted(event) {
  if (typing(event.target) || !event.clipboardData) return;
  const files = [...event.clipboardData.files];
  const text = event.clipboardData.getData("text/plain").trim();
  if (files.length) adding(files);
  else if (address.read().place === "library" && /^https?:\/\/\S+$/i.test(text)) addUrls([{ url: text }]);
}

async function begin() {
  setLanguage(memory.get("language") || (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"));
  theme();
  dark.addEventListener("change", () => (theme(), bar()));
  app.watch((values, changed) => {
    if (changed.includes("signIn") && values.signIn) signIn();
  });
  addEventListener("hashchange", () => (app.get("about") ? show() : start()));
  addEventListener("keydown", pressed);
  addEventListener("dragover", dragging);
  addEventListener("dragleave", dragging);
  addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    dropped(event.dataTransfer).then(adding, (error) => toast(error.message));
  });
  addEventListener("paste", pasted);
  await start();
}

/** Without knowing what there is, nothing can be shown but that: it is not an empty shelf. */
async function start() {
  const main = frame(address.read().place);
  try {
    await look();
  } catch (error) {
    if (error.status !== 401) fill(main, h("div.page", fault(error, start))); // else the dialog goes on from here
    return;
  }
  await show();
  follow();
}

begin();
