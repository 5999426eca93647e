// A page is told that what it shows has changed, asks for itself anew, and takes over what differs.
"use strict";
(() => {
  const body = document.body;
  const status = document.getElementById("live");
  const HIDDEN_SECONDS = 20;
  let source = null, hiding = 0, underway = false, again = false, pending = null;

  const say = (text) => { if (status.textContent !== text) status.textContent = text; };
  const rowsOf = (root) => [...root.querySelectorAll("[data-row]")].map((row) => row.id);
  const isWithin = (element) => element.matches(":hover") || element.contains(document.activeElement);

  const callbacks = {
    // Who is drawn by a script keeps what the script has drawn.
    beforeNodeMorphed: (old, fresh) => {
      if (old.nodeType !== 1) return true;
      if (old.hasAttribute("data-keep")) {
        if (fresh.hasAttribute("aria-label")) old.setAttribute("aria-label", fresh.getAttribute("aria-label"));
        return false;
      }
      return true;
    },
  };

  // Rows keep their places under the pointer: those that stay are told anew, others wait.
  const inPlace = (old, fresh) => {
    for (const row of old.querySelectorAll("[data-row]")) {
      const now = fresh.querySelector("#" + CSS.escape(row.id));
      if (now) Idiomorph.morph(row, now, { morphStyle: "outerHTML", callbacks });
    }
  };

  const take = (page) => {
    pending = null;
    for (const old of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(old.id);
      if (!fresh) continue;
      const moves = old.hasAttribute("data-rows") && isWithin(old) &&
        rowsOf(old).join() !== rowsOf(fresh).join();
      if (moves) { inPlace(old, fresh); pending = page; }
      else Idiomorph.morph(old, fresh, { morphStyle: "outerHTML", callbacks });
    }
    const held = document.getElementById("held");
    if (held) held.hidden = !pending;
    document.dispatchEvent(new Event("di:taken"));
  };

  const refresh = async () => {
    if (underway) { again = true; return; }
    underway = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (answer.ok || answer.status === 404) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (answer.status === 404) { say("gone"); return; }
        // A job that is gone is another page under the same address.
        if (page.body.dataset.view !== body.dataset.view) { location.reload(); return; }
        take(page);
        say("live");
      } else say("signed out");
    } catch { say("away"); }
    finally {
      underway = false;
      if (again) { again = false; refresh(); }
    }
  };

  const listen = () => {
    if (source || !body.dataset.topic) return;
    source = new EventSource(body.dataset.stream + "?topic=" + encodeURIComponent(body.dataset.topic));
    source.onopen = refresh;
    source.onerror = () => say("away");
    for (const kind of ["changed", "beat"]) source.addEventListener(kind, refresh);
  };
  const rest = () => { source?.close(); source = null; say("paused"); };

  // Browsers have few connections to one host: a page that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(rest, HIDDEN_SECONDS * 1000);
    else listen();
  });
  addEventListener("pagehide", rest);
  addEventListener("pageshow", listen);

  document.getElementById("held")?.addEventListener("click", () => { if (pending) take(pending); });
  const rows = document.querySelector("[data-rows]");
  rows?.addEventListener("pointerleave", () => { if (pending && !rows.contains(document.activeElement)) take(pending); });

  let typing = 0;
  for (const form of document.querySelectorAll("form.search, form.slide")) form.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      const url = new URL(form.action);
      for (const [key, value] of new FormData(form)) if (value) url.searchParams.append(key, value);
      history.replaceState(null, "", url);
      refresh();
    }, form.matches(".slide") ? 60 : 150);
  });

  window.di = { refresh };
  listen();
})();
