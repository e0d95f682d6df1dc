// Keys (`/`, `g p`, `?`), the choice between light and dark, which a cookie remembers for the server, and drafts.
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
  // Enter in a field of a dialog presses its main button; in a list it chooses, in a text it breaks the line.
  addEventListener("keydown", ({ key, isComposing, repeat, target }) => {
    if (key !== "Enter" || isComposing || repeat || !target.matches(".ask input:not([role=combobox])")) return;
    target.closest(".ask").querySelector(".foot .main-act:not([disabled])")?.click();
  });
  // The second click of a double one is a slip: what it would do has been asked for by the first.
  addEventListener("click", (event) => {
    if (event.detail < 2 || !event.target.closest(".main button, .q-dialog button")) return;
    event.preventDefault();
    event.stopPropagation();
  }, true);
  addEventListener("submit", async (event) => {
    if (event.target.dataset.login === undefined) return;
    event.preventDefault();
    const answer = await fetch("/api/v1/session", {
      method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify(Object.fromEntries(new FormData(event.target))),
    });
    if (answer.ok) return location.assign(event.target.dataset.next);
    const refused = document.getElementById("refused"), why = await answer.json().catch(() => ({}));
    refused.textContent = why.detail ?? why.title ?? `The server answered ${answer.status}.`;
    refused.hidden = false;
  });
  // What somebody is writing outlives a reload, which a restart of the server brings about; unless what is kept there
  // has changed meanwhile.
  const place = () => `penstock draft ${location.pathname}${location.search}`;
  const editor = () => document.querySelector(".editor textarea:not([readonly])");
  const begun = new WeakMap();
  addEventListener("focusin", ({ target }) => {
    if (target === editor() && !begun.has(target)) begun.set(target, target.value);
  });
  addEventListener("pagehide", () => {
    const field = editor(), before = field && begun.get(field);
    if (before !== undefined && field.value !== before) {
      sessionStorage.setItem(place(), JSON.stringify([before, field.value]));
    }
  });
  const draft = sessionStorage.getItem(place());
  sessionStorage.removeItem(place());
  if (draft && performance.getEntriesByType("navigation")[0]?.type === "reload") {
    const [before, written] = JSON.parse(draft), until = Date.now() + 20000;
    const look = setInterval(() => {
      const field = editor();
      if (!field?.value && Date.now() < until) return;
      clearInterval(look);
      if (field?.value !== before) return;
      begun.set(field, before);
      field.value = written;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }, 100);
  }
  globalThis.penstockLogOut = async () => {
    const known = await fetch("/api/v1/session");
    const { csrf } = known.ok ? await known.json() : {};
    if (csrf) await fetch("/api/v1/session", { method: "DELETE", headers: { "x-csrf-token": csrf } });
    location.assign("/login");
  };
  globalThis.penstockTheme = (name) => {
    document.cookie = `penstock_theme=${name}; path=/; max-age=31536000; samesite=lax`;
  };
})();
