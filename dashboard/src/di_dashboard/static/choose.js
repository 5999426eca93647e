// The jobs that are ticked to be compared: this tab remembers them from page to page.
"use strict";
(() => {
  const form = document.getElementById("chosen");
  if (!form) return;
  const KEY = "di-compare", LEAST = 2, MOST = 20;
  const count = document.getElementById("chosen-count"), go = document.getElementById("chosen-go"), clear = document.getElementById("chosen-clear"), all = document.getElementById("chosen-all");
  let chosen = new Set((() => { try { return JSON.parse(sessionStorage.getItem(KEY)) || []; } catch { return []; } })());
  const boxes = () => document.querySelectorAll("input.choose");

  const show = () => {
    try { sessionStorage.setItem(KEY, JSON.stringify([...chosen])); } catch { /* it holds for this page */ }
    const here = new Set();
    for (const box of boxes()) { box.checked = chosen.has(box.value); here.add(box.value); }
    // Those of other pages are sent as well.
    form.querySelectorAll("input[type=hidden]").forEach((each) => each.remove());
    for (const value of chosen) if (!here.has(value)) {
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name: "job", value }));
    }
    const size = chosen.size;
    form.hidden = !size;
    count.textContent = size > MOST ? size + " jobs are ticked, " + MOST + " at most can be compared" : size === 1 ? "1 job is ticked; tick one more to compare" : size + " jobs are ticked";
    go.disabled = size < LEAST || size > MOST;
    clear.hidden = false;
    all.hidden = [...here].every((value) => chosen.has(value));
  };
  document.addEventListener("change", (event) => {
    const { target } = event;
    if (!target.matches("input.choose")) return;
    if (target.checked) chosen.add(target.value); else chosen.delete(target.value);
    show();
  });
  all.addEventListener("click", () => { for (const box of boxes()) chosen.add(box.value); show(); });
  clear.addEventListener("click", () => { chosen = new Set(); show(); });
  document.addEventListener("di:taken", show);
  addEventListener("pageshow", show);
  show();
})();
