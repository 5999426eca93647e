// The curves of several jobs on one plot, with bands; the server has chosen and smoothed them.
"use strict";
(() => {
  const { aligned, colour, font, logRange, onLook, shown } = window.plotting;
  const LEFT = 64, FEET = 34, HEIGHT = 360;
  const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
  const AXES = { "step": "step", "env-step": "environment step", "time": "time since the first report" };
  let plot = null;

  const read = () => JSON.parse(document.getElementById("plot-data")?.textContent || '{"lines":[],"metrics":[]}');
  const span = (seconds) => seconds < 120 ? shown(seconds) + " s" : seconds < 7200 ? shown(seconds / 60) + " min" : shown(seconds / 3600) + " h";
  const placeOf = (told, at) => told.axis === "time" ? span(at) : shown(at);
  const paint = (line) => colour("--k" + line.number % 6);
  const positive = (told, points) => told.log ? points.filter(([, value]) => value > 0) : points;

  // A line, and the edges of its band: each is a series of the plot.
  const series = (told) => told.lines.flatMap((line) => [
    { line, points: positive(told, line.points) },
    ...(line.low.length ? [line.high, line.low].map((edge) => ({ line, isEdge: true, points: positive(told, edge) })) : []),
  ]);
  // The nearest place that this series has a value at, because each has its own.
  const nearest = (values, at) => {
    for (let far = 0; far < values.length; far += 1) {
      if (values[at - far] != null) return at - far;
      if (values[at + far] != null) return at + far;
    }
    return null;
  };
  const tell = (told, all) => (drawn) => {
    const label = document.getElementById("at"), { left, top, idxs } = drawn.cursor;
    if (!label) return;
    const near = left < 0 || !idxs ? [] : all
      .map((each, place) => ({ ...each, place: place + 1, index: idxs[place + 1] }))
      .filter((each) => !each.isEdge && each.index != null)
      .map((each) => ({ ...each, far: Math.abs(drawn.valToPos(drawn.data[each.place][each.index], "y") - top) }))
      .sort((a, b) => a.far - b.far);
    if (!near.length) { label.textContent = ""; return; }
    const { line, place, index } = near[0], value = drawn.data[place][index];
    const [high, low] = line.low.length ? [drawn.data[place + 1][index], drawn.data[place + 2][index]] : [];
    const range = low == null || high == null ? "" : " (" + shown(low) + " to " + shown(high) + ")";
    label.textContent = AXES[told.axis] + " " + placeOf(told, drawn.data[0][index]) + ": " + line.label + " " + shown(value) + range;
  };

  const options = (told, all, data, width) => ({
    width, height: HEIGHT, padding: [8, 12, 0, 0], legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 6 }, dataIdx: (_, place, at) => place && at != null ? nearest(data[place], at) : at },
    scales: {
      x: { time: false, range: (_, low, high) => low === high ? [low - 1, high + 1] : [low, high] },
      y: told.log ? { distr: 3, log: 10, range: logRange } : { range: (_, low, high) => {
        const space = (high - low) * 0.06 || 1;
        return [low - space, high + space];
      } },
    },
    axes: [
      { size: FEET, stroke: colour("--quiet"), font, ticks: { show: false }, grid: { stroke: colour("--line"), width: 1 }, values: (_, splits) => splits.map((at) => placeOf(told, at)) },
      { size: LEFT, stroke: colour("--quiet"), font, ticks: { show: false }, grid: { stroke: colour("--line"), width: 1 }, values: (_, splits) => splits.map((each) => shown(each)) },
    ],
    series: [{}, ...all.map(({ line, isEdge, points }) => ({
      label: line.label, stroke: isEdge ? "transparent" : paint(line), width: isEdge ? 0 : 1.75, dash: DASHES[Math.floor(line.number / 6)],
      points: { show: !isEdge && points.length < 3, size: 5 },
    }))],
    bands: all.flatMap((each, place) => each.isEdge && !all[place - 1].isEdge ? [{ series: [place + 1, place + 2], fill: paint(each.line) + "33" }] : []),
    hooks: { setCursor: [tell(told, all)] },
  });

  // The reader's choice stays while an earlier answer arrives: only new names are added.
  const offer = (told) => {
    const select = document.getElementById("metric");
    const known = new Set([...select.options].map((each) => each.value));
    for (const name of told.metrics) if (!known.has(name)) select.append(new Option(name));
    if (!new URLSearchParams(location.search).has("metric") && document.activeElement !== select) select.value = told.title;
  };
  const draw = () => {
    plot?.destroy();
    plot = null;
    const told = read();
    offer(told);
    const place = document.getElementById("plot"), button = document.getElementById("compare-png");
    if (button) button.hidden = !told.lines.length;
    document.body.dataset.lines = told.lines.length;
    if (!place || !told.lines.length) return;
    const all = series(told), data = aligned(all, []);
    place.replaceChildren();
    plot = new uPlot(options(told, all, data, place.clientWidth), data, place);
    place.dataset.axis = told.axis;
    place.dataset.scale = told.log ? "log" : "linear";
    place.dataset.bands = told.lines.filter((line) => line.low.length).length;
  };

  // The picture has a ground, the title and the names, which the plot's own canvas lacks.
  const picture = () => {
    const told = read(), drawn = plot.ctx.canvas, scale = devicePixelRatio || 1;
    const canvas = document.createElement("canvas"), ctx = canvas.getContext("2d");
    const HEAD = 30 * scale, ROW = 20 * scale, rows = [];
    ctx.font = 12 * scale + "px system-ui, sans-serif";
    const most = drawn.width - 24 * scale;
    let used = Infinity;
    for (const line of told.lines) {
      const width = ctx.measureText(line.label).width + 44 * scale;
      if (used + width > most) { rows.push([]); used = 0; }
      rows.at(-1).push([line, used]);
      used += width;
    }
    canvas.width = drawn.width;
    canvas.height = HEAD + drawn.height + rows.length * ROW + 10 * scale;
    ctx.fillStyle = colour("--card");
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    ctx.drawImage(drawn, 0, HEAD);
    ctx.textBaseline = "middle";
    ctx.fillStyle = colour("--text");
    ctx.font = "600 " + 13 * scale + "px system-ui, sans-serif";
    ctx.fillText(told.title + " by " + AXES[told.axis], 12 * scale, HEAD / 2);
    ctx.font = 12 * scale + "px system-ui, sans-serif";
    ctx.lineWidth = 2 * scale;
    rows.forEach((row, at) => row.forEach(([line, left]) => {
      const x = left + 12 * scale, y = HEAD + drawn.height + (at + 0.5) * ROW;
      ctx.strokeStyle = paint(line);
      ctx.setLineDash(DASHES[Math.floor(line.number / 6)].map((each) => each * scale));
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(x + 24 * scale, y);
      ctx.stroke();
      ctx.fillStyle = colour("--text");
      ctx.fillText(line.label, x + 30 * scale, y);
    }));
    return canvas;
  };
  const save = () => plot && picture().toBlob((blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = "compare-" + read().title.replace(/[^\w.-]+/g, "-") + ".png";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });

  document.addEventListener("click", (event) => { if (event.target.id === "compare-png") save(); });
  document.addEventListener("di:taken", draw);
  onLook(draw);
  draw();
})();
