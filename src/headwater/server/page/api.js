// Calls of the server: a path and values in, `data` out, or an error that can be shown.

import { memory, store } from "./kit.js";

const KEPT_ALIVE = 60_000; // bytes that a browser sends on after a page is left
export const CHATS = "/api/v1/conversations"; // where conversations are kept and go on

/** What everybody needs to know: the texts' language, who is signed in, what there is to ask. */
export const app = store({ about: null, collections: [], collection: "", signIn: false });

/** Whether the caller's key may do this: "write" or "admin". */
export const may = (what) => ["write", "admin"].indexOf(app.get("about")?.rights ?? "admin") >= ["write", "admin"].indexOf(what);

export class Failed extends Error {
  constructor(message, { status = 0, name = "", id = "" } = {}) {
    super(message);
    Object.assign(this, { status, error: name, id });
  }
}

function headers(more = {}) {
  const key = memory.get("key");
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

async function checked(answer) {
  if (answer.ok) return answer;
  let told = {};
  try {
    told = await answer.json();
  } catch {
    /* no JSON: the status says enough */
  }
  if (answer.status === 401) app.set({ signIn: true });
  const message = told.message || told.error?.message || told.detail || `${answer.status} ${answer.statusText}`;
  throw new Failed(String(message), { status: answer.status, name: told.error, id: answer.headers.get("x-request-id") });
}

async function asked(method, path, { query, body, signal, form } = {}) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query || {})) {
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== "") url.searchParams.append(name, one);
  }
  const sent = form ?? (body === undefined ? undefined : JSON.stringify(body));
  const told = headers(form || body === undefined ? {} : { "Content-Type": "application/json" });
  let answer;
  try {
    // What is deleted is deleted, also when the page is left in the same moment.
    answer = await fetch(url, { method, headers: told, body: sent, signal, keepalive: method === "DELETE" && (sent?.length ?? 0) < KEPT_ALIVE });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed("offline", { status: 0, name: "offline" });
  }
  return checked(answer);
}

async function json(method, path, given) {
  const told = await (await asked(method, path, given)).json();
  return told && typeof told === "object" && "data" in told ? Object.assign(told.data ?? {}, beside(told)) : told;
}

/** Lists carry their total beside `data`. */
function beside(told) {
  return Array.isArray(told.data) && told.total !== undefined ? { total: told.total } : {};
}

export const get = (path, query, signal) => json("GET", path, { query, signal });
export const post = (path, body = {}, signal) => json("POST", path, { body, signal });
export const put = (path, body) => json("PUT", path, { body });
export const remove = (path, body) => json("DELETE", path, { body });
export const text = async (path) => (await asked("GET", path)).text();
export const blob = async (path, query, signal) => (await asked("GET", path, { query, signal })).blob();

/** Send files, and say how much of them is there: fetch cannot. */
export function upload(path, form, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onerror = () => reject(new Failed("offline", { name: "offline" }));
    request.onload = () => {
      let told = {};
      try {
        told = JSON.parse(request.responseText);
      } catch {
        /* the status says enough */
      }
      if (request.status === 401) app.set({ signIn: true });
      if (request.status < 300) resolve(told.data ?? told);
      else reject(new Failed(told.message || request.statusText, { status: request.status, name: told.error }));
    };
    request.send(form);
  });
}

const tries = {};
/** A part of the page that is fetched when it is needed. A browser keeps in mind that one could not be: another try has another name. */
export async function part(name) {
  try {
    return await import(`./${name}.js${tries[name] ? `?${tries[name]}` : ""}`);
  } catch (error) {
    if (!/modul/i.test(error.message)) throw error;
    tries[name] = (tries[name] || 0) + 1;
    throw new Failed("offline", { name: "offline" });
  }
}

/** Server-sent events of a POST: (name, data) for each, until the stream ends or is stopped. */
export async function* events(path, body, signal) {
  const answer = await asked("POST", path, { body, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      throw error.name === "AbortError" ? error : new Failed("offline", { name: "offline" });
    });
    buffer += (value || "").replaceAll("\r\n", "\n");
    const parts = buffer.split("\n\n");
    buffer = done ? "" : parts.pop();
    for (const part of parts) {
      let name = "message";
      const data = [];
      for (const line of part.split("\n")) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (data.length && data.join("\n") !== "[DONE]") yield [name, JSON.parse(data.join("\n"))];
    }
    if (done) return;
  }
}
