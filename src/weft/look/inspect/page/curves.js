// Curves with intervals, on a linear or a logarithmic scale.

renderers.curves = (plot) => {
  const width = Math.max(300, Math.min(640, document.documentElement.clientWidth - 64)), height = 300, left = 64, bottom = 44, top = 12, right = 12;
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${plot.title}: ${plot.y_name} against ${plot.x_name}`, style: "max-width:100%" });
  const values = plot.series.flatMap((each) => [...each.y, ...(each.low || []), ...(each.high || [])]).filter((y) => y !== null && (!plot.log || y > 0));
  const scale = plot.log ? Math.log10 : (y) => y, across = plot.log_x ? Math.log2 : (x) => x;
  let least = Math.min(...values.map(scale)), most = Math.max(...values.map(scale));
  if (!plot.log && least > 0 && least < most / 2) least = 0;
  if (plot.log) least = Math.max(least, most - 12);
  if (!(most > least)) { most = least + 1; }
  const marks = ticks(least, most, plot.log);
  if (!plot.log && marks.length > 1 && marks.at(-1) < most) most = Number((2 * marks.at(-1) - marks.at(-2)).toPrecision(6)), marks.push(most);
  const xs = plot.x, first = across(Math.min(...xs)), last = across(Math.max(...xs));
  const px = (x) => left + ((across(x) - first) / (last - first || 1)) * (width - left - right);
  const py = (y) => height - bottom - ((Math.max(scale(y), least) - least) / (most - least)) * (height - bottom - top);
  for (const tick of marks) {
    const y = height - bottom - ((tick - least) / (most - least)) * (height - bottom - top);
    svg.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }),
      shape("text", { class: "soft", x: left - 6, y, "font-size": 12, "text-anchor": "end", "dominant-baseline": "central" }, plot.log ? `10${superscript(tick)}` : number(tick, 2)));
  }
  for (const x of xTicks(xs, px)) svg.append(shape("text", { class: "soft", x: px(x), y: height - bottom + 16, "font-size": 12, "text-anchor": px(x) > width - right - 12 ? "end" : "middle" }, String(x)));
  svg.append(shape("text", { x: (left + width - right) / 2, y: height - 8, "font-size": 13, "text-anchor": "middle" }, plot.x_name),
    shape("text", { "font-size": 13, "text-anchor": "middle", transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)` }, plot.y_name));
  const dashes = ["", "7 3", "2 3", "9 3 2 3", "4 2", "1 2"];
  plot.series.forEach((each, index) => {
    const hue = `var(--series-${(index % 6) + 1})`, good = (y) => y !== null && y !== undefined && (!plot.log || y > 0);
    if (each.low && each.high) {
      const there = xs.map((x, i) => [x, each.high[i]]).filter((p) => good(p[1])), back = xs.map((x, i) => [x, each.low[i]]).filter((p) => p[1] !== null).reverse();
      const area = [...there, ...back].map(([x, y]) => `${px(x)},${good(y) ? py(y) : height - bottom}`).join(" ");
      svg.append(shape("polygon", { points: area, fill: hue, "fill-opacity": 0.15 }));
    }
    const points = xs.map((x, i) => [x, each.y[i]]).filter((p) => good(p[1]));
    svg.append(shape("polyline", { points: points.map(([x, y]) => `${px(x)},${py(y)}`).join(" "), fill: "none", stroke: hue, "stroke-width": 2, "stroke-dasharray": dashes[index % 6] }));
    if (points.length < 40) for (const [x, y] of points) {
      const dot = shape("circle", { cx: px(x), cy: py(y), r: 3, fill: hue });
      dot.append(shape("title", {}, `${each.name}, ${plot.x_name} ${x}: ${number(y)}`));
      svg.append(dot);
    }
  });
  const legend = element("ul", { class: "legend" }, ...plot.series.map((each, index) => element("li", {}, swatch(index, dashes), each.name + (drawable(plot, each) ? "" : " (nothing to draw: all zero)"))));
  return element("div", {}, heading(plot), scrolled(plot.title, svg), legend, remark(plot));
};

function ticks(least, most, log) {
  if (log) {
    const step = Math.max(1, Math.ceil((most - least) / 6)), list = [];
    for (let power = Math.ceil(least); power <= most; power += step) list.push(power);
    return list.length ? list : [least];
  }
  const raw = (most - least) / 5, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw), list = [];
  for (let tick = Math.ceil(least / step) * step; tick <= most + 1e-9; tick += step) list.push(Number(tick.toPrecision(6)));
  return list;
}

// The positions that are named: so few that their names do not touch.
function xTicks(xs, px) {
  const every = Math.max(1, Math.ceil(xs.length / 12)), chosen = [];
  let end = -Infinity;
  for (const x of xs.filter((_, index) => index % every === 0)) {
    const half = widthOf(String(x), 12) / 2;
    if (px(x) - half < end + 10) continue;
    chosen.push(x);
    end = px(x) + half;
  }
  return chosen;
}

function drawable(plot, series) {
  return series.y.some((y) => y !== null && (!plot.log || y > 0));
}

// A piece of a curve for the legend, with its dashes.
function swatch(index, dashes) {
  const svg = shape("svg", { width: 34, height: 10, viewBox: "0 0 34 10", "aria-hidden": "true" });
  svg.append(shape("line", { x1: 0, x2: 34, y1: 5, y2: 5, stroke: `var(--series-${(index % 6) + 1})`, "stroke-width": 2.5, "stroke-dasharray": dashes[index % 6] }));
  return svg;
}

function superscript(power) {
  return String(power).replace("-", "⁻").replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
}
