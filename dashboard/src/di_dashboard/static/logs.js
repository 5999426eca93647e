// Logs are followed in one stream for all panels; what is searched for is marked, the rest hidden.
"use strict";
(() => {
  const MOST_LINES = 5000;
  const panels = document.getElementById("panels");
  const search = document.getElementById("q");
  const hits = document.getElementById("hits");
  const status = document.getElementById("live");
  const logs = new Map([...panels.querySelectorAll(".panel")].map((panel) => [panel.dataset.pod, panel]));

  const fits = (line, words) => !words || line.lastElementChild.textContent.toLowerCase().includes(words);
  const filter = () => {
    const words = search.value.toLowerCase();
    let count = 0;
    for (const line of panels.querySelectorAll(".log p")) {
      line.hidden = !fits(line, words);
      count += words && !line.hidden ? 1 : 0;
    }
    hits.textContent = words ? count + (count === 1 ? " line" : " lines") : "";
  };
  const isAtEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const toEnd = (log) => { log.scrollTop = log.scrollHeight; };

  // Programs write colours for terminals as SGR codes. Only these become classes, each part is plain text, and a
  // line with very many keeps the rest as one part. Other sequences are left out.
  const MOST_PARTS = 200;
  const CODES = /\x1b\[([0-9;:]{0,40})m|\x1b\[[0-9;?]{0,40}[A-Za-ln-z]/g;
  const paint = (said, text) => {
    if (!text.includes("\x1b")) { said.textContent = text; return; }
    const parts = [];
    let from = 0, colour = "", bold = false;
    const put = (words) => {
      if (!words) return;
      const part = document.createElement("span");
      part.textContent = words;
      part.className = [colour, bold ? "bold" : ""].filter(Boolean).join(" ");
      parts.push(part);
    };
    for (const found of text.matchAll(CODES)) {
      if (parts.length >= MOST_PARTS) break;
      put(text.slice(from, found.index));
      from = found.index + found[0].length;
      if (found[1] === undefined) continue;
      const numbers = found[1].split(/[;:]/).map(Number);
      for (let i = 0; i < numbers.length; i += 1) {
        const n = numbers[i];
        if (n === 38 || n === 48) i += numbers[i + 1] === 5 ? 2 : 4;
        else if (n === 0) { colour = ""; bold = false; }
        else if (n === 1) bold = true;
        else if (n === 22) bold = false;
        else if (n === 39) colour = "";
        else if (n === 90) colour = "k90";
        else if ((n >= 31 && n <= 36) || (n >= 91 && n <= 96)) colour = "k" + (n > 90 ? n - 60 : n);
      }
    }
    put(text.slice(from).replace(CODES, ""));
    said.replaceChildren(...parts);
  };

  const add = (pod, at, text) => {
    const panel = logs.get(pod);
    if (!panel || at <= panel.dataset.last) return;
    panel.dataset.last = at;
    panel.querySelector(".wrong")?.remove();
    const log = panel.querySelector(".log");
    const line = document.createElement("p"), time = document.createElement("time"), said = document.createElement("span");
    time.textContent = at.slice(11, 19);
    paint(said, text);
    line.append(time, " ", said);
    line.hidden = !fits(line, search.value.toLowerCase());
    log.append(line);
    while (log.childElementCount > MOST_LINES) log.firstElementChild.remove();
  };

  const follow = () => {
    if (!panels.dataset.stream || !logs.size) return;
    const query = new URLSearchParams();
    if (panels.dataset.container) query.append("container", panels.dataset.container);
    for (const [pod, panel] of logs) { query.append("pod", pod); query.append("since", panel.dataset.last); }
    const source = new EventSource(panels.dataset.stream + "?" + query);
    source.onopen = () => { status.textContent = "live"; };
    source.onmessage = (event) => {
      const ends = [...logs.values()].map((panel) => panel.querySelector(".log")).filter(isAtEnd);
      for (const [pod, at, text] of JSON.parse(event.data)) add(pod, at, text);
      ends.forEach(toEnd);
      if (search.value) filter();
    };
    // It goes on where it was, which the old address does not know.
    source.onerror = () => { source.close(); status.textContent = "away"; setTimeout(follow, 2000); };
    addEventListener("pagehide", () => source.close(), { once: true });
  };

  search.addEventListener("input", filter);
  document.getElementById("logs-form").addEventListener("change", (event) => {
    if (event.target.type === "checkbox" || event.target.name === "container") event.currentTarget.requestSubmit();
  });
  for (const said of panels.querySelectorAll(".log p > span")) paint(said, said.textContent);
  document.querySelectorAll(".log").forEach(toEnd);
  filter();
  follow();
})();
