// A click on the button -> the open page goes to the server; the button says how it went.

import { DEFAULTS, failureOf, requestFor } from "./request.js";

const browser = globalThis.browser ?? globalThis.chrome;
const say = (name, ...values) => browser.i18n.getMessage(name, values) || name;

// Runs in the page. It gets nothing from here and gives back plain values.
function readPage() {
  return {
    url: location.href,
    title: document.title,
    html: document.documentElement.outerHTML,
    selection: String(getSelection() ?? ""),
  };
}

async function show(tabId, text, colour, title) {
  await browser.action.setBadgeBackgroundColor({ tabId, color: colour });
  await browser.action.setBadgeText({ tabId, text });
  await browser.action.setTitle({ tabId, title });
}

async function send(tab) {
  const settings = await browser.storage.local.get(DEFAULTS);
  let page;
  try {
    const [found] = await browser.scripting.executeScript({ target: { tabId: tab.id }, func: readPage });
    page = found.result;
  } catch {
    return say("no_page");
  }
  if (!page || !/^https?:/.test(page.url)) return say("no_page");
  const { url, options } = requestFor(page, settings);
  try {
    const response = await fetch(url, options);
    const failure = failureOf(response.status);
    return failure && say(failure);
  } catch {
    return say("unreachable");
  }
}

async function keep(tab) {
  await show(tab.id, "…", "#666666", say("send"));
  const failure = await send(tab);
  if (failure) await show(tab.id, "!", "#b00020", say("failed", failure));
  else await show(tab.id, "✓", "#0b6e8a", say("sent"));
}

browser.action.onClicked.addListener(keep);
browser.runtime.onInstalled.addListener(() => {
  browser.contextMenus.create({ id: "send", title: say("send"), contexts: ["page", "selection"] });
});
browser.contextMenus.onClicked.addListener((_, tab) => keep(tab));
