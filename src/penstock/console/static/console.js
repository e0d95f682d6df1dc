// Keys (`/`, `g p`, `?`) and the choice between light and dark, which a cookie remembers for the server.
(() => {
  const places = {
    p: "/", d: "/dead-letters", h: "/history", w: "/workflows", r: "/triggers", j: "/jobs", t: "/topics",
    i: "/instances", n: "/notifications", a: "/audit", u: "/users",
  };
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
  addEventListener("submit", async (event) => {
    if (event.target.id !== "login") return;
    event.preventDefault();
    const { user, password } = Object.fromEntries(new FormData(event.target));
    const answer = await fetch("/api/v1/session", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ user, password }),
    });
    if (answer.ok) return location.assign(event.target.dataset.next);
    const refused = document.getElementById("refused"), why = await answer.json().catch(() => ({}));
    refused.textContent = why.detail ?? why.title ?? `The server answered ${answer.status}.`;
    refused.hidden = false;
  });
  globalThis.penstockTheme = (name) => {
    document.cookie = `penstock_theme=${name}; path=/; max-age=31536000; samesite=lax`;
  };
})();
