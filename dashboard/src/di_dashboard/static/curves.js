// Curves below the phases, on the same axis: its ends are the server's, and so are its margins.
// The reader chooses curves, the axis, smoothing and the scale; this browser remembers the choice.
"use strict";
(() => {
  const { aligned, colour, font, logRange, onLook, shown } = window.plotting;
  const LEFT = 56, RIGHT = 12, HEIGHT = 104;
  const KEY = "di-curves", FEET = 20;
  const plots = new Map();
  const choice = Object.assign({ axis: "time", smooth: 0, log: false, curves: {} }, (() => {
    try { return JSON.parse(localStorage.getItem(KEY)) || {}; } catch { return {}; }
  })());
  const remember = () => { try { localStorage.setItem(KEY, JSON.stringify(choice)); } catch { /* it holds for this page */ } };
  const isChosen = (chart) => choice.curves[chart.title] ?? chart.shown;
  const read = () => JSON.parse(document.getElementById("curves-data")?.textContent || '{"charts":[]}');
  // A moving average in which each value counts by its age, without the pull of the first zero.
  const smoothed = (points) => {
    let sum = 0, weight = 0;
    return points.map(([at, value]) => {
      sum = choice.smooth * sum + (1 - choice.smooth) * value;
      weight = choice.smooth * weight + (1 - choice.smooth);
      return [at, sum / weight];
    });
  };
  // The step that was reported last, in place of the time; what came before the first is left out.
  const bySteps = (points, steps) => {
    let next = 0;
    const found = new Map();
    for (const [at, value] of points) {
      while (next < steps.length && steps[next][0] <= at + 1) next += 1;
      if (next) found.set(steps[next - 1][1], value);
    }
    return [...found].sort((a, b) => a[0] - b[0]);
  };
  const prepared = (chart, steps) => chart.lines.map((line) => {
    let points = chart.stepped ? line.points : smoothed(line.points);
    if (choice.axis === "step") points = bySteps(points, steps);
    if (isLog(chart)) points = points.filter(([, value]) => value > 0);
    return { ...line, points };
  });
  const isLog = (chart) => choice.log && !chart.stepped && chart.unit !== "%";

  const options = (chart, index, range, ticks, width) => ({
    width, height: HEIGHT + (choice.axis === "step" ? FEET : 0),
    padding: [8, RIGHT, 6, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "job" }, points: { size: 6 } },
    scales: {
      x: { time: choice.axis === "time", range: () => range },
      y: isLog(chart) ? { distr: 3, log: 10, range: logRange } : { range: (_, low, high) => {
        const least = chart.unit === "%" || chart.stepped ? 0 : low;
        const most = Math.max(high, least + 1e-9);
        const room = (most - least) * 0.08 || 1;
        return [least === 0 ? 0 : least - room, most + room];
      } },
    },
    axes: [
      choice.axis === "step" ? { size: FEET, stroke: colour("--quiet"), font, ticks: { show: false }, grid: { stroke: colour("--line"), width: 1 }, values: (_, splits) => splits.map((each) => shown(each, "")) } :
      { size: 0, splits: () => ticks.filter((at) => at >= range[0]), values: (_, splits) => splits.map(() => ""), ticks: { show: false }, grid: { stroke: colour("--line"), width: 1 } },
      { size: LEFT, stroke: colour("--quiet"), font, space: 28, ticks: { show: false },
        grid: { stroke: colour("--line"), width: 1 }, values: (_, splits) => splits.map((each) => shown(each, chart.unit)) },
    ],
    series: [{}, ...chart.lines.map((line, at) => ({
      label: line.label, stroke: colour("--k" + at % 6), width: 1.75, 
      points: { show: line.points.length < 3, size: 5 },
      paths: chart.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
    }))],
    hooks: { setCursor: [(plot) => {
      const at = plot.cursor.idx, label = document.getElementById("at-" + index);
      if (!label) return;
      const where = at == null ? "" : choice.axis === "step" ? "step " + shown(plot.data[0][at], "") : new Date(plot.data[0][at] * 1000).toLocaleTimeString();
      label.textContent = at == null ? "" : where + "  " +
        chart.lines.map((_, i) => shown(plot.data[i + 1][at], chart.unit)).filter(Boolean).join(", ");
    }] },
  });

  const draw = () => {
    const { start, end, ticks, holes = [], steps = [], charts } = read();
    if (!steps.length) choice.axis = "time";
    offer(charts, steps);
    const isTime = choice.axis === "time";
    const ends = isTime ? [start, end] : [Math.min(...steps.map((each) => each[1])), Math.max(...steps.map((each) => each[1]))];
    charts.forEach((chart, index) => {
      const place = document.getElementById("plot-" + index), figure = document.getElementById("curve-" + index);
      if (!place) return;
      figure.hidden = !isChosen(chart);
      let kept = plots.get(index);
      if (figure.hidden) { kept?.plot.destroy(); plots.delete(index); return; }
      const lines = prepared(chart, steps), data = aligned(lines, isTime ? holes : []);
      place.dataset.axis = choice.axis;
      place.dataset.scale = isLog(chart) ? "log" : "linear";
      place.dataset.last = shown(lines[0]?.points.at(-1)?.[1], chart.unit);
      const key = [chart.title, ...lines.map((line) => line.label), choice.axis, choice.log].join("\n");
      if (!kept || kept.key !== key || !place.contains(kept.plot.root)) {
        kept?.plot.destroy();
        place.replaceChildren();
        const range = [...ends], grid = [...ticks];
        const plot = new uPlot(options({ ...chart, lines }, index, range, grid, place.clientWidth), data, place);
        plots.set(index, { key, plot, range, grid });
        return;
      }
      [kept.range[0], kept.range[1]] = ends;
      kept.grid.splice(0, kept.grid.length, ...ticks);
      kept.plot.setData(data);
    });
    document.body.dataset.curves = plots.size;
  };

  // The controls, for the curves that there are.
  const form = document.getElementById("curve-choice");
  const offer = (charts, steps) => {
    if (!form) return;
    form.hidden = !charts.length;
    const box = document.getElementById("curve-titles");
    const titles = charts.map((chart) => chart.title);
    if (box.dataset.titles !== JSON.stringify(titles)) {
      box.dataset.titles = JSON.stringify(titles);
      box.replaceChildren(...charts.map((chart) => {
        const label = document.createElement("label"), tick = document.createElement("input");
        Object.assign(tick, { type: "checkbox", checked: isChosen(chart), value: chart.title });
        label.append(tick, " " + chart.title);
        return label;
      }));
    }
    document.getElementById("curve-axis").value = choice.axis;
    document.getElementById("curve-axis").disabled = !steps.length;
    document.getElementById("curve-smooth").value = choice.smooth;
    document.getElementById("curve-log").checked = choice.log;
  };
  const take = (event) => {
    const { id, value, checked, type } = event.target;
    if (id === "curve-axis") choice.axis = value;
    else if (id === "curve-smooth") choice.smooth = Math.min(0.98, Number(value) || 0);
    else if (id === "curve-log") choice.log = checked;
    else if (type === "checkbox") choice.curves[value] = checked;
    remember();
    draw();
  };
  // Not every browser sends both for each control.
  for (const kind of ["input", "change"]) form?.addEventListener(kind, take);
  form?.addEventListener("submit", (event) => event.preventDefault());
  const anew = () => { for (const kept of plots.values()) kept.plot.destroy(); plots.clear(); draw(); };

  document.addEventListener("di:taken", draw);
  onLook(anew);
  draw();
})();
