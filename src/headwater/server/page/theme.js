// The theme before anything is painted, so that a dark page does not begin white; `app.js` goes on from here.

(() => {
  let chosen = "";
  try {
    chosen = localStorage.getItem("headwater.theme") ?? "";
  } catch {
    /* a browser that forbids it has chosen nothing */
  }
  document.documentElement.dataset.theme = chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
})();
