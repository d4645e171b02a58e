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

/** Replace what a node holds. */
export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, ...children);
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

/** The address: `#/place/rest?name=value`. */
export const address = {
  read() {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const [place = "", ...rest] = path.split("/").map(decodeURIComponent);
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

/** Move into sight; gently, unless the system asks for less motion. */
export function reveal(node, block = "center") {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  node?.scrollIntoView({ block, inline: "nearest", behavior: calm ? "auto" : "smooth" });
}

/** The first, after a pause in which no other came. */
export function settled(work, pause = 250) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), pause);
  };
}
