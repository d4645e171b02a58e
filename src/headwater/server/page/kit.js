// Values in, DOM nodes out; and a store that tells whoever asked. All the framework there is: text never becomes markup.

const SVG = new Set(["svg", "path", "line", "rect", "g", "circle", "polyline", "text"]);
const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "open", "indeterminate", "hidden", "multiple"]);
const SAFE_LINK = /^(?:https?:|mailto:|blob:|#|\/(?!\/))/i;

/**
 * A node: h("button.primary", {onclick, "aria-label": "…"}, "text", node, [more]).
 * `class` adds classes, `data` sets data-*, `vars` sets CSS custom properties (through the object model, which the
 * security policy allows; a style attribute it does not), `ref` is called with the node. null and false are left out.
 */
export function h(spec, props, ...children) {
  const [tag, ...classes] = spec.split(".");
  const node = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  if (props && (typeof props !== "object" || props instanceof Node || Array.isArray(props))) {
    children.unshift(props);
    props = null;
  }
  for (const [name, value] of Object.entries(props || {})) set(node, name, value);
  return add(node, children);
}

function set(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (PROPERTIES.has(name)) node[name] = false;
  } else if (name === "ref") value(node);
  else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
  else if (name === "class") node.classList.add(...String(value).split(" ").filter(Boolean));
  else if (name === "data") Object.assign(node.dataset, value);
  else if (name === "vars") for (const [key, one] of Object.entries(value)) node.style.setProperty(`--${key}`, one);
  else if (PROPERTIES.has(name)) node[name] = value;
  else if ((name === "href" || name === "src") && !SAFE_LINK.test(value)) node.dataset.refused = name;
  else node.setAttribute(name, value === true ? "" : String(value));
}

/** Append what is given: nodes, texts, and lists of them. */
export function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** Replace what a node holds. The focus stays on what has the same name. */
export function fill(node, ...children) {
  const back = refocus(node);
  node.replaceChildren();
  add(node, ...children);
  back();
  return node;
}

const signs = new WeakMap(); // of the nodes that `keyed` made: what they were made from

/**
 * Make the children of a node those of `wanted`, a list of [key, sign, make]. What has the same key and sign stays the
 * very node it was, with its focus, what is selected in it and what is open.
 */
export function keyed(node, wanted) {
  const back = refocus(node);
  const keys = new Set(wanted.map(([key]) => key));
  const known = new Map();
  for (const one of [...node.children]) {
    if (keys.has(one.dataset.key)) known.set(one.dataset.key, one);
    else one.remove();
  }
  let at = node.firstChild;
  for (const [key, sign, make] of wanted) {
    let one = known.get(key);
    if (!one || signs.get(one) !== sign) {
      const made = make();
      made.dataset.key = key;
      signs.set(made, sign);
      if (at === one) at = made;
      one?.replaceWith(made);
      one = made;
    }
    if (one === at) at = at.nextSibling;
    else node.insertBefore(one, at);
  }
  back();
}

const nameOf = (node) => node.getAttribute("aria-label") || (node.closest("label") || node).textContent;

/** Before a change of what a node holds; the returned function gives the focus back afterwards. */
function refocus(node) {
  const held = document.activeElement;
  if (held === node || !node.contains(held)) return () => null;
  const alike = () => [...node.querySelectorAll(held.localName)].filter((one) => nameOf(one) === nameOf(held));
  const place = alike().indexOf(held);
  return () => {
    if (document.activeElement !== held) (held.isConnected ? held : alike()[place])?.focus({ preventScroll: true });
  };
}

/** Arrows, Home and End walk among the buttons of a node; with `single`, Tab stops at one of them only. */
export function arrows(node, { single = false } = {}) {
  const all = () => [...node.querySelectorAll("button")];
  if (single) all().forEach((one, at) => (one.tabIndex = at ? -1 : 0));
  node.addEventListener("keydown", (event) => {
    const found = all();
    const at = found.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: found.length - 1 }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    found[Math.max(0, Math.min(found.length - 1, next))].focus();
  });
  if (single) {
    node.addEventListener("focusin", (event) => {
      if (event.target.matches("button")) for (const one of all()) one.tabIndex = one === event.target ? 0 : -1;
    });
  }
  return node;
}

/** Named values, and who wants to know when they change. */
export function store(initial) {
  const values = { ...initial };
  const watchers = new Set();
  return {
    get: (name) => values[name],
    set(changes) {
      const changed = Object.keys(changes).filter((name) => values[name] !== changes[name]);
      Object.assign(values, changes);
      if (changed.length) for (const watcher of [...watchers]) watcher(values, changed);
    },
    /** Call back at every change, until the returned function is called. */
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

/** What is remembered in this browser: small choices, never documents. A browser that forbids it only forgets. */
export const memory = {
  get(name, fallback = "") {
    try {
      return localStorage.getItem(`headwater.${name}`) ?? fallback;
    } catch {
      return fallback;
    }
  },
  set(name, value) {
    try {
      if (value) localStorage.setItem(`headwater.${name}`, value);
      else localStorage.removeItem(`headwater.${name}`);
    } catch {
      /* nothing to do: the choice lasts as long as the page */
    }
  },
};

/** As it stands where a link was cut in the middle of a letter. */
const unescaped = (part) => { try { return decodeURIComponent(part); } catch { return part; } };

/** The address: `#/place/rest?name=value`. */
export const address = {
  read() {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const [place = "", ...rest] = path.split("/").map(unescaped);
    return { place: place || "ask", rest, query: Object.fromEntries(new URLSearchParams(query)) };
  },
  to(place, rest = [], query = {}) {
    const told = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
    const asked = new URLSearchParams(told).toString();
    return `#/${[place, ...rest].map(encodeURIComponent).join("/")}${asked ? `?${asked}` : ""}`;
  },
  /** Change the query of the place one is at, without another entry in the history. */
  note(query) {
    const now = address.read();
    history.replaceState(null, "", address.to(now.place, now.rest, { ...now.query, ...query }));
  },
};

/** Move into sight; the last bit of the way is shown, for a moment, unless the system asks for less motion. */
export function reveal(node, block = "center") {
  let box = node?.parentElement; // what scrolls it; the page around that stays where it is
  while (box && !(box.scrollHeight > box.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(box).overflowY))) box = box.parentElement;
  const from = (box ?? document.scrollingElement).scrollTop;
  const [at, room] = [node?.getBoundingClientRect(), box?.getBoundingClientRect()];
  if (box && block === "center") box.scrollTop += at.top - room.top - (room.height - at.height) / 2;
  else node?.scrollIntoView({ block, inline: "nearest" });
  const by = Math.max(-80, Math.min(80, (box ?? document.scrollingElement).scrollTop - from));
  if (!node || !by || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const one of (box ?? document.querySelector("main")).children) one.animate([{ transform: `translateY(${by}px)` }, {}], { duration: 160, easing: "ease-out" });
}

/** The first, after a pause in which no other came. */
export function settled(work, pause = 250) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), pause);
  };
}
