// What all plots share: values on a common axis, numbers as text, colors of the theme.
"use strict";
window.plotting = (() => {
  const font = "11px system-ui, sans-serif";
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // null ends a line where nobody looked; undefined is no value of this line, and is drawn over.
  const aligned = (lines, holes) => {
    const ends = new Set(holes.map(([from, to]) => (from + to) / 2));
    const places = [...new Set([...ends, ...lines.flatMap((line) => line.points.map((point) => point[0]))])].sort((a, b) => a - b);
    return [places, ...lines.map((line) => {
      const found = new Map(line.points);
      return places.map((at) => found.has(at) ? found.get(at) : ends.has(at) ? null : undefined);
    })];
  };
  const shown = (value, unit) => value == null ? "" :
    unit === "%" ? Math.round(value * 100) + " %" : Number(value.toPrecision(4)).toLocaleString();
  const logRange = (_, low, high) => [(low || 1) / 1.2, (high || 1) * 1.2];
  // Plots are drawn anew when colors or widths change.
  const onLook = (draw) => {
    document.addEventListener("di:theme", draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    let sizing = 0;
    addEventListener("resize", () => { clearTimeout(sizing); sizing = setTimeout(draw, 100); });
  };
  return { aligned, colour, font, logRange, onLook, shown };
})();
