// A search tree: from left to right, kept branches in colour, pruned ones in grey, ends marked.

renderers.tree = (plot) => {
  const children = new Map();
  for (const node of plot.nodes) children.set(node.parent, [...(children.get(node.parent) || []), node]);
  const best = new Set(plot.best || []), right = new Set(plot.right || []);
  const step = 92, line = 22, places = [];
  let rows = 0, deepest = 0;
  const lay = (node, depth) => {
    deepest = Math.max(deepest, depth);
    const below = children.get(node.id) || [];
    const ys = below.map((child) => lay(child, depth + 1));
    const y = ys.length ? ys[0] : rows++;
    places.push({ node, depth, y, below: below.map((child, index) => ys[index]) });
    return y;
  };
  for (const root of children.get(-1) || []) lay(root, 0);
  const width = (deepest + 1) * step + 40, height = rows * line + 16;
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${plot.title}: ${plot.nodes.length} branches` });
  const readout = element("p", { class: "readout", "aria-live": "polite" }, "");
  for (const { node, depth, y, below } of places) {
    const px = 8 + depth * step, py = 14 + y * line;
    for (const other of below) svg.append(shape("path", { class: "grid", d: `M ${px + step - 26} ${py} C ${px + step - 8} ${py}, ${px + step - 20} ${14 + other * line}, ${px + step - 4} ${14 + other * line}` }));
    const group = shape("g", { tabindex: 0, role: "img", class: "node", "data-fate": node.fate });
    const hue = best.has(node.id) ? "var(--plus)" : right.has(node.id) ? "var(--series-3)" : node.fate === "pruned" ? "var(--quiet)" : "var(--ink)";
    const name = shortened(visible(node.symbol), 6) + (node.fate === "ended" ? " ■" : node.fate === "pruned" ? " ✕" : "");
    group.append(shape("text", { x: px, y: py, "font-size": 13, "dominant-baseline": "central", style: `fill:${hue};font-weight:${best.has(node.id) || right.has(node.id) ? 700 : 400}` }, `${name} ${number(node.log_prob, 2)}`));
    const say = () => { readout.textContent = `${visible(node.symbol)}: log p ${number(node.log_prob)}, sum ${number(node.total)}, ranked by ${number(node.rank)}, ${node.fate}`; };
    group.setAttribute("aria-label", `${visible(node.symbol)}, log p ${number(node.log_prob)}, ${node.fate}`);
    group.addEventListener("mouseenter", say);
    group.addEventListener("focus", say);
    svg.append(group);
  }
  const legend = element("p", { class: "quiet" }, "Blue: the output. Green: the given right output, as far as the search saw it. ■ ended here, ✕ pruned. The number is the log-probability of the symbol.");
  return element("div", {}, heading(plot), element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": plot.title }, svg), readout, legend, remark(plot));
};
