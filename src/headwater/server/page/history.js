// History: conversations that were kept, to be searched, opened, exported and deleted, with undo.

import { CHATS, get, remove } from "./api.js";
import { chat, markdown, now, turnsOf } from "./ask.js";
import { t } from "./i18n.js";
import { address, fill, h, settled } from "./kit.js";
import { fault, modal, save, toast, when } from "./said.js";

const STEP = 100; // conversations that are listed at once
const MOST = 1000;
const gone = new Set(); // those whose removal can still be undone
const open = (id) => (location.hash = address.to("ask", [], { c: id }));

export function history() {
  const list = h("ul.listed");
  const search = h("input", { type: "search", autofocus: true, placeholder: t("history.search"), "aria-label": t("history.search"), oninput: settled(() => fetchList()) });
  let size = STEP;
  const fetchList = async () => {
    try {
      const { conversations } = await get(CHATS, { q: search.value, page_size: size });
      const shown = conversations.filter((one) => !gone.has(one.id));
      fill(list, shown.length ? shown.map(entry) : h("li.soft", t(search.value ? "history.none" : "history.empty")),
        conversations.length === size && size < MOST ? h("li", h("button.small", { onclick: () => ((size = Math.min(MOST, size * 4)), fetchList()) }, t("more"))) : null);
      if (document.activeElement === document.body) search.focus(); // what was pressed is gone
    } catch (error) {
      fill(list, h("li", fault(error, fetchList)));
    }
  };
  const entry = (one) => h("li",
    h("button.quiet", { onclick: () => (dialog.close(), open(one.id)) },
      h("span", one.title || t("untitled")), h("span.soft.fine", `${when(one.updated)} · ${t("history.turns", { n: one.count ?? 0 })}`)),
    h("span.row",
      h("button.small.quiet", { onclick: () => exported(one), "aria-label": t("history.export.of", { title: one.title }) }, t("history.export")),
      h("button.small.quiet.danger", { onclick: () => drop(one), "aria-label": t("history.delete.of", { title: one.title }) }, t("delete"))));
  /** What is deleted while it is on show makes room for a new one, and comes back with an undo. */
  const drop = (one) => {
    const here = now().id === one.id;
    gone.add(one.id);
    if (here) now().view?.fresh();
    fetchList();
    toast(t("history.deleted", { title: one.title }), {
      undo: () => {
        gone.delete(one.id);
        fetchList();
        if (here && now().view && !now().turns) open(one.id);
      },
      done: () => remove(chat(one.id)).then(() => gone.delete(one.id), (error) => (gone.delete(one.id), toast(error.message))),
    });
  };
  const dialog = modal(t("ask.history"), () => [search, list]);
  fetchList();
}

async function exported(one) {
  try {
    const found = await get(chat(one.id));
    const turns = turnsOf(found.turns);
    const text = turns.map((turn) => (turn.answer ? markdown(turn) : `### ${turn.question}\n`)).join("\n");
    save(`${(one.title || "conversation").replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60)}.md`, `# ${one.title}\n\n${text}`, "text/markdown");
  } catch (error) {
    toast(error.message);
  }
}
