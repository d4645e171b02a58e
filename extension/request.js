// The page as the browser has it, and the settings -> the request that the server takes. Nothing else: so that it can be
// tested without a browser.

export const DEFAULTS = { server: "http://127.0.0.1:8571", key: "", collection: "", tags: "" };
// What the server takes in one field; a longer page is mostly pictures that are written out.
const MAX_HTML = 30_000_000;
const MAX_SELECTION = 20_000;

// The address of a server without what may stand behind it, or an empty text for what is none.
export function serverOf(text) {
  try {
    const url = new URL(text.trim());
    if (!["http:", "https:"].includes(url.protocol) || url.username || url.password) return "";
    return url.origin + url.pathname.replace(/\/+$/, "");
  } catch {
    return "";
  }
}

export function requestFor(page, settings) {
  const told = { ...DEFAULTS, ...settings };
  const tags = told.tags.split(/[,，]/).map((tag) => tag.trim()).filter(Boolean);
  const body = {
    url: page.url.split("#")[0],
    html: page.html.slice(0, MAX_HTML),
    title: page.title.slice(0, 1000),
    tags,
    client_source: "extension",
  };
  if (page.selection) body.meta = { selection: page.selection.slice(0, MAX_SELECTION) };
  if (told.collection) body.collection = told.collection;
  const headers = { "Content-Type": "application/json" };
  if (told.key) headers.Authorization = `Bearer ${told.key}`;
  return {
    url: `${serverOf(told.server) || DEFAULTS.server}/api/v1/ingest/html`,
    options: { method: "POST", headers, body: JSON.stringify(body), credentials: "omit", redirect: "error" },
  };
}

// Why it was not sent, as the name of a message; empty where it was.
export function failureOf(status) {
  if (status === 401 || status === 403) return "refused";
  return status >= 200 && status < 300 ? "" : `HTTP ${status}`;
}
