// The page by the keyboard alone.
"use strict";
(() => {
  const dialog = document.getElementById("keys");
  const links = () => [...document.querySelectorAll("[data-row] th a")];
  const step = (by) => {
    const found = links();
    if (!found.length) return;
    const at = found.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : found.length - 1) : Math.min(found.length - 1, Math.max(0, at + by));
    found[next].focus();
  };
  const go = (selector) => document.querySelector(selector)?.click();
  const does = {
    "/": () => document.getElementById("q")?.focus(),
    "?": () => dialog.showModal(),
    j: () => step(1),
    k: () => step(-1),
    x: () => document.activeElement.closest("[data-row]")?.querySelector(".choose")?.click(),
    g: () => go(".brand"),
    c: () => go("nav a[href$='/cluster']"),
    e: () => go("nav a[href$='/ended']"),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    // What was typed stays: leaving a field is not forgetting it.
    if (event.key === "Escape" && typing) { event.preventDefault(); event.target.blur(); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    const action = does[event.key];
    if (action) { event.preventDefault(); action(); }
  });
})();
