// Curves below the phases, on the same axis: its ends are the server's, and so are its margins.
"use strict";
(() => {
  const LEFT = 56, RIGHT = 12, HEIGHT = 104;
  const plots = new Map();
  const read = () => JSON.parse(document.getElementById("curves-data")?.textContent || '{"charts":[]}');
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // null ends a line where nobody looked; undefined is no value of this line, and is drawn over.
  const aligned = (lines, holes) => {
    const ends = new Set(holes.map(([from, to]) => (from + to) / 2));
    const times = [...new Set([...ends, ...lines.flatMap((line) => line.points.map((point) => point[0]))])].sort((a, b) => a - b);
    return [times, ...lines.map((line) => {
      const found = new Map(line.points);
      return times.map((at) => found.has(at) ? found.get(at) : ends.has(at) ? null : undefined);
    })];
  };
  const shown = (value, unit) => value == null ? "" :
    unit === "%" ? Math.round(value * 100) + " %" : Number(value.toPrecision(4)).toLocaleString();

  const options = (chart, index, range, ticks, width) => ({
    width, height: HEIGHT,
    padding: [8, RIGHT, 6, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "job" }, points: { size: 6 } },
    scales: {
      x: { time: true, range: () => range },
      y: { range: (_, low, high) => {
        const least = chart.unit === "%" || chart.stepped ? 0 : low;
        const most = Math.max(high, least + 1e-9);
        const room = (most - least) * 0.08 || 1;
        return [least === 0 ? 0 : least - room, most + room];
      } },
    },
    axes: [
      { size: 0, splits: () => ticks.filter((at) => at >= range[0]), values: (_, splits) => splits.map(() => ""), ticks: { show: false }, grid: { stroke: colour("--line"), width: 1 } },
      { size: LEFT, stroke: colour("--quiet"), font: "11px system-ui, sans-serif", space: 28, ticks: { show: false },
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
      label.textContent = at == null ? "" : new Date(plot.data[0][at] * 1000).toLocaleTimeString() + "  " +
        chart.lines.map((_, i) => shown(plot.data[i + 1][at], chart.unit)).filter(Boolean).join(", ");
    }] },
  });

  const draw = () => {
    const { start, end, ticks, holes = [], charts } = read();
    charts.forEach((chart, index) => {
      const place = document.getElementById("plot-" + index);
      if (!place) return;
      const key = chart.title + chart.lines.map((line) => line.label);
      let kept = plots.get(index);
      if (!kept || kept.key !== key || !place.contains(kept.plot.root)) {
        kept?.plot.destroy();
        place.replaceChildren();
        const range = [start, end], lines = [...ticks];
        const plot = new uPlot(options(chart, index, range, lines, place.clientWidth), aligned(chart.lines, holes), place);
        plots.set(index, { key, plot, range, lines });
        return;
      }
      kept.range[0] = start;
      kept.range[1] = end;
      kept.lines.splice(0, kept.lines.length, ...ticks);
      kept.plot.setData(aligned(chart.lines, holes));
    });
    document.body.dataset.curves = charts.length;
  };
  const anew = () => { for (const kept of plots.values()) kept.plot.destroy(); plots.clear(); draw(); };

  document.addEventListener("di:taken", draw);
  document.addEventListener("di:theme", anew);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", anew);
  let sizing = 0;
  addEventListener("resize", () => { clearTimeout(sizing); sizing = setTimeout(anew, 100); });
  draw();
})();
