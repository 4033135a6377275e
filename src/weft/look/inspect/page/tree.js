// A search, step by step from left to right: in each column what was considered, kept branches first. Long searches go
// on in further bands, each of which repeats the last column of the one before; in a narrow window they scroll.

const TREE = { line: 20, size: 13, gap: 26, least: 5 };

renderers.tree = (plot) => {
  const columns = columnsOf(plot.nodes), best = new Set(plot.best || []), right = new Set(plot.right || []);
  const readout = element("p", { class: "readout", "aria-live": "polite" }, "");
  const name = (node) => `${shortened(visible(node.symbol), 8)} ${number(node.log_prob, 2)}${node.fate === "ended" ? " ■" : node.fate === "pruned" ? " ✕" : ""}`;
  const step = Math.max(60, ...plot.nodes.map((node) => widthOf(name(node), TREE.size + 0.5))) + TREE.gap;
  const fit = Math.floor((Math.min(1280, document.documentElement.clientWidth) - 90) / step), most = fit < TREE.least ? columns.length : fit;
  const drawn = { plot, columns, best, right, readout, name, step };
  const bands = [];
  for (let first = 0; first === 0 || first < columns.length - 1; first += most - 1) bands.push(bandOf(drawn, first, Math.min(columns.length, first + most)));
  const legend = element("p", { class: "quiet" }, "Each column is a step. Blue: the output. Green: the given right output, as far as the search saw it. ■ ended here, ✕ pruned. The number is the log-probability of the symbol.");
  return element("div", {}, heading(plot), ...bands.map((band) => scrolled(plot.title, band)), readout, legend, remark(plot));
};

// The nodes of each step, kept ones first, each with its place: {node, column, row}.
function columnsOf(nodes) {
  const depths = new Map(), columns = [];
  for (const node of nodes) {
    const depth = depths.has(node.parent) ? depths.get(node.parent) + 1 : 0;
    depths.set(node.id, depth);
    (columns[depth] ||= []).push(node);
  }
  const order = (node) => [node.fate === "pruned" ? 1 : 0, -node.rank];
  for (const column of columns) column.sort((a, b) => order(a)[0] - order(b)[0] || order(a)[1] - order(b)[1]);
  return columns;
}

function bandOf({ plot, columns, best, right, readout, name, step }, first, end) {
  const shown = columns.slice(first, end), places = new Map();
  shown.forEach((column, at) => (first && at === 0 ? column.filter((node) => node.fate !== "pruned") : column)
    .forEach((node, row) => places.set(node.id, { node, x: 8 + at * step, y: 30 + row * TREE.line })));
  const width = shown.length * step + 8, height = 44 + TREE.line * Math.max(...shown.map((column) => column.length - 1));
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${plot.title}: steps ${first + 1} to ${end}, ${places.size} branches` });
  shown.forEach((_, at) => svg.append(shape("text", { class: "soft", x: 8 + at * step, y: 10, "font-size": 11 }, `step ${first + at + 1}`)));
  const hueOf = (node) => best.has(node.id) ? "var(--plus)" : right.has(node.id) ? "var(--series-3)" : node.fate === "pruned" ? "var(--quiet)" : "var(--ink)";
  const strongLast = [...places.values()].sort((a, b) => best.has(a.node.id) - best.has(b.node.id) || right.has(a.node.id) - right.has(b.node.id));
  for (const { node, x, y } of strongLast) {
    const from = places.get(node.parent);
    if (!from) continue;
    const start = from.x + widthOf(name(from.node), TREE.size + 0.5) + 4;
    const strong = best.has(node.id) || right.has(node.id);
    svg.append(shape("path", { fill: "none", stroke: strong ? hueOf(node) : "var(--line)", "stroke-width": strong ? 2 : 1,
      d: `M ${start} ${from.y} H ${x - TREE.gap + 4} C ${x - 10} ${from.y}, ${x - TREE.gap + 8} ${y}, ${x - 4} ${y}` }));
  }
  for (const { node, x, y } of places.values()) {
    const strong = best.has(node.id) || right.has(node.id);
    const group = shape("g", { tabindex: 0, role: "img", class: "node", "data-fate": node.fate });
    group.append(shape("text", { x, y, "font-size": TREE.size, "dominant-baseline": "central", style: `fill:${hueOf(node)};font-weight:${strong ? 700 : 400}` }, name(node)));
    const say = () => { readout.textContent = `${visible(node.symbol)}: log p ${number(node.log_prob)}, sum ${number(node.total)}, ranked by ${number(node.rank)}, ${node.fate}`; };
    group.setAttribute("aria-label", `${visible(node.symbol)}, log p ${number(node.log_prob)}, ${node.fate}`);
    group.addEventListener("mouseenter", say);
    group.addEventListener("focus", say);
    svg.append(group);
  }
  return svg;
}
