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

  const add = (pod, at, text) => {
    const panel = logs.get(pod);
    if (!panel || at <= panel.dataset.last) return;
    panel.dataset.last = at;
    panel.querySelector(".wrong")?.remove();
    const log = panel.querySelector(".log");
    const line = document.createElement("p"), time = document.createElement("time"), said = document.createElement("span");
    time.textContent = at.slice(11, 19);
    said.textContent = text;
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
  document.querySelectorAll(".log").forEach(toEnd);
  filter();
  follow();
})();
