// Keys (`/`, `g p`, `?`) and the choice between light and dark, which a cookie remembers for the server.
(() => {
  const places = { p: "/", d: "/dead-letters", r: "/replays", t: "/topics", i: "/instances", a: "/audit", u: "/users" };
  let went = 0;
  const typing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.key === "/") {
      const field = document.querySelector("[data-search] input, input[data-search]");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
    } else if (event.key === "?") {
      document.getElementById("keys")?.showModal();
    } else if (event.key === "g") {
      went = Date.now();
      return;
    } else if (Date.now() - went < 1500 && places[event.key]) {
      location.assign(places[event.key]);
    }
    went = 0;
  });
  globalThis.penstockTheme = (name) => {
    document.cookie = `penstock_theme=${name}; path=/; max-age=31536000; samesite=lax`;
  };
})();
