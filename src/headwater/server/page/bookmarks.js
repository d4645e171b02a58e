// An export of bookmarks -> the pages that they lead to, added with their titles, folders and tags.

import { addUrls, picked } from "./adding.js";
import { t } from "./i18n.js";
import { toast } from "./said.js";

const NO_FOLDERS = new Set(["unread", "archive", "unsorted", "starred"]); // what reading lists call no folder

export const pickBookmarks = () => picked({ accept: ".html,.htm,.csv", multiple: false }, (files) => files[0] && bookmarks(files[0]));

/** An export of a browser or of a reading list: its addresses with their titles, folders and tags. */
async function bookmarks(file) {
  const text = await file.text();
  const found = (/^\s*</.test(text) ? fromPage(text) : fromTable(text)).filter((one) => /^https?:\/\//i.test(one.url));
  const unique = [...new Map(found.reverse().map((one) => [one.url, one])).values()].reverse(); // the first of each
  if (unique.length) await addUrls(unique);
  else toast(t("add.no.bookmarks"));
}

const apart = (tags) => (tags || "").split(/[,|]/).map((tag) => tag.trim()).filter(Boolean);

/** The HTML of every browser, and of Pocket. */
function fromPage(text) {
  const parsed = new DOMParser().parseFromString(text, "text/html"); // runs and fetches nothing
  return [...parsed.querySelectorAll("a[href]")].map((link) => {
    const folders = [];
    for (let list = link.closest("dl"); list; list = list.parentElement?.closest("dl")) {
      const title = list.previousElementSibling?.matches?.("h3") ? list.previousElementSibling : list.parentElement?.querySelector(":scope > h3");
      if (title) folders.unshift(title.textContent.trim());
    }
    return { url: link.getAttribute("href"), title: link.textContent.trim().slice(0, 500), folder: folders.join("/"), tags: apart(link.getAttribute("tags")) };
  });
}

/** A CSV with a column `url`, as Raindrop, Pocket and Instapaper write it. */
function fromTable(text) {
  const cells = [...text.replace(/^\ufeff/, "").matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)];
  const rows = [[]];
  for (const [, quoted, bare, end] of cells) {
    rows.at(-1).push(quoted === undefined ? bare : quoted.replaceAll('""', '"'));
    if (end !== ",") rows.push([]);
  }
  const names = (rows.shift() || []).map((name) => name.trim().toLowerCase());
  return rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at] || ""]))).map((one) => ({
    url: one.url || "", title: (one.title || "").slice(0, 500), folder: NO_FOLDERS.has((one.folder || "").toLowerCase()) ? "" : one.folder || "", tags: apart(one.tags),
  }));
}
