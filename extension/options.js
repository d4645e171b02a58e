// What a person types into the options -> what the button uses. A server elsewhere needs the person's permission.

import { DEFAULTS, serverOf } from "./request.js";

const browser = globalThis.browser ?? globalThis.chrome;
const say = (name) => browser.i18n.getMessage(name) || name;
const form = document.getElementById("form");
const told = document.getElementById("told");

document.documentElement.lang = browser.i18n.getUILanguage();
for (const element of document.querySelectorAll("[data-say]")) element.textContent = say(element.dataset.say);

browser.storage.local.get(DEFAULTS).then((settings) => {
  for (const name of Object.keys(DEFAULTS)) form.elements[name].value = settings[name];
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const settings = Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, form.elements[name].value.trim()]));
  settings.server = serverOf(settings.server);
  if (!settings.server) {
    told.textContent = say("wrong_server");
    return;
  }
  // Asked for first, while the click still counts as the person's wish.
  const origins = [`${new URL(settings.server).protocol}//${new URL(settings.server).hostname}/*`];
  if (!(await browser.permissions.request({ origins }))) {
    told.textContent = say("not_allowed");
    return;
  }
  await browser.storage.local.set(settings);
  form.elements.server.value = settings.server;
  told.textContent = say("saved");
});
