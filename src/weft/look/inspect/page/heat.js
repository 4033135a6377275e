// Heat maps: one panel at a time, links between symbols on hover or focus, arrow keys to walk through the squares.

const CURVES = 6; // features of a source that are drawn as curves
const FAINT = 0.7; // weights of a map that are all below are scaled to the largest, so that they can be seen

renderers.heat = (plot) => {
  const box = element("div", { class: "heat" });
  const readout = element("p", { class: "readout", "aria-live": "polite" }, "");
  const drawing = element("div");
  let panel = plot.panels[0];

  const picture = plot.picture ? pictureOf(plot, () => panel) : null;
  const scale = element("span", { class: "scale" });
  const strips = symbolStrips(plot, () => panel, readout, (row) => picture?.show(row));
  const show = () => {
    drawing.replaceChildren(scrolled(`${plot.title}, map`, heatMap(plot, panel, readout, (row) => { strips.clear(); picture?.show(row); })));
    scale.replaceChildren(...scaleOf(plot, panel));
    strips.clear();
    picture?.show(-1);
  };
  box.append(heading(plot), controls(plot, scale, (chosen) => { panel = chosen; show(); }), ...strips.nodes, ...(picture ? [picture.node] : []), drawing, readout);
  const note = remark(plot);
  if (note) box.append(note);
  show();
  return box;
};

function controls(plot, scale, choose) {
  const row = element("div", { class: "controls" });
  if (plot.panels.length > 1) {
    const options = plot.panels.map((each, index) => element("option", { value: index }, each.name));
    const list = element("select", { on: { change: (event) => choose(plot.panels[Number(event.target.value)]) } }, ...options);
    row.append(element("label", {}, "map", list));
  }
  row.append(scale);
  return row;
}

// From which number to which the colours go: up to 1, or up to the largest number of a map where all are small.
function scaleOf(plot, panel) {
  const most = strength(plot, panel), signed = plot.scale === "signed";
  const far = number(most) + (plot.scale === "share" && most < 1 ? ", the largest here" : "");
  return [signed ? `−${number(most)}` : "0", element("i", { class: signed ? "signed" : "share" }), far];
}

function strength(plot, panel) {
  let most = 0;
  for (const row of panel.values) for (const value of row) most = Math.max(most, Math.abs(value ?? 0));
  return plot.scale === "share" && most > FAINT ? 1 : most || 1;
}

// The two sequences as buttons: a symbol shows what it takes from, or gives to, the others.
function symbolStrips(plot, panel, readout, chosen) {
  const square = plot.rows.length === plot.columns.length && plot.rows.every((name, index) => name === plot.columns[index]);
  const make = (names, name, act) => {
    const buttons = names.map((symbol, index) => element("button", {
      type: "button", tabindex: index === 0 ? 0 : -1, "data-index": index, title: `${name} ${index + 1}`,
      on: { mouseenter: () => act(index), focus: () => act(index), click: () => act(index), mouseleave: () => leave(), blur: () => leave() },
    }, element("span", {}, visible(symbol))));
    const strip = element("div", { class: "symbols", role: "toolbar", "aria-label": name, on: { keydown: walk } },
      element("span", { class: "name" }, name), ...buttons);
    return { strip, buttons };
  };
  const weigh = (buttons, values) => buttons.forEach((button, index) => {
    const share = values ? Math.min(1, Math.abs(values[index] ?? 0) / strength(plot, panel())) : 0;
    button.style.setProperty("--weight", share.toFixed(3));
    button.classList.toggle("strong", share > 0.6);
  });
  const press = (strip, index) => strip.buttons.forEach((button, at) => button.setAttribute("aria-pressed", at === index));
  const say = (name, symbol, others, values) => {
    const order = values.map((value, index) => [value ?? 0, index]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 3);
    const list = order.map(([value, index]) => `${visible(others[index])} ${number(value)}`).join(", ");
    readout.textContent = `${name} ${visible(symbol)}: ${list}`;
  };
  const rows = make(plot.rows, plot.row_name, (index) => {
    press(rows, index); press(columns, -1); weigh(rows.buttons, null); weigh(columns.buttons, panel().values[index]); chosen(index);
    say(plot.row_name, plot.rows[index], plot.columns, panel().values[index]);
  });
  const columns = make(plot.columns, square ? plot.column_name + " ↓" : plot.column_name, (index) => {
    const values = panel().values.map((row) => row[index]);
    press(columns, index); press(rows, -1); weigh(columns.buttons, null); weigh(rows.buttons, values);
    say(plot.column_name, plot.columns[index], plot.rows, values);
  });
  const clear = () => { for (const each of [rows, columns]) { press(each, -1); weigh(each.buttons, null); } readout.textContent = ""; };
  const leave = () => { clear(); chosen(-1); };
  return { nodes: [rows.strip, columns.strip], clear };
}

// Arrow keys move within a strip of symbols, so that it is one stop of the Tab key.
function walk(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  if (!(event.key in steps)) return;
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  const next = buttons[Math.max(0, Math.min(buttons.length - 1, buttons.indexOf(document.activeElement) + steps[event.key]))];
  buttons.forEach((button) => button.setAttribute("tabindex", button === next ? 0 : -1));
  next.focus();
  event.preventDefault();
}

function heatMap(plot, panel, readout, chosen) {
  const rows = plot.rows.map((name) => shortened(visible(name))), columns = plot.columns.map((name) => shortened(visible(name)));
  const cell = plot.rows.length > 60 || plot.columns.length > 60 ? 12 : 24, size = cell > 16 ? 14 : 9;
  const widest = Math.max(0, ...columns.map((name) => widthOf(name, size)));
  const upright = columns.map((name) => widthOf(name, size) > cell - 9); // two that stand must not touch
  const left = Math.max(20, ...rows.map((name) => widthOf(name, size))) + 8;
  const track = plot.track ? 48 : 0;
  const top = (upright.includes(true) ? widest : size) + 10 + track;
  const width = left + cell * columns.length + 2, height = top + cell * rows.length + 2;
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img",
    "aria-label": `${plot.title}, ${panel.name}: ${rows.length} by ${columns.length}; arrow keys move through the squares` });
  if (track) svg.append(trackOf(plot.track, left, cell, track - 6));
  const columnNames = columns.map((name, c) => labelOf(name, left + cell * (c + 0.5), top - 4, size, upright[c]));
  const rowNames = rows.map((name, r) => shape("text", { x: left - 5, y: top + cell * (r + 0.5), "font-size": size, "text-anchor": "end", "dominant-baseline": "central" }, name));
  svg.append(...columnNames, ...rowNames, squares(plot, panel, left, top, cell));
  const cursor = shape("rect", { class: "cursor", width: cell, height: cell, visibility: "hidden" });
  svg.append(shape("rect", { class: "grid", x: left, y: top, width: cell * columns.length, height: cell * rows.length }), cursor);
  let at = [0, 0];
  const point = (r, c) => {
    at = [Math.max(0, Math.min(rows.length - 1, r)), Math.max(0, Math.min(columns.length - 1, c))];
    cursor.setAttribute("x", left + cell * at[1]);
    cursor.setAttribute("y", top + cell * at[0]);
    cursor.setAttribute("visibility", "visible");
    chosen(at[0]);
    rowNames.forEach((name, index) => name.classList.toggle("lit", index === at[0]));
    columnNames.forEach((name, index) => name.classList.toggle("lit", index === at[1]));
    readout.textContent = `${plot.row_name} ${visible(plot.rows[at[0]])} (${at[0] + 1}) → ${plot.column_name} ${visible(plot.columns[at[1]])} (${at[1] + 1}): ${number(panel.values[at[0]][at[1]])}`;
  };
  svg.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect(), scale = width / frame.width;
    const c = Math.floor(((event.clientX - frame.left) * scale - left) / cell), r = Math.floor(((event.clientY - frame.top) * scale - top) / cell);
    if (r >= 0 && c >= 0 && r < rows.length && c < columns.length) point(r, c);
  });
  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!(event.key in moves)) return;
    point(at[0] + moves[event.key][0], at[1] + moves[event.key][1]);
    event.preventDefault();
  });
  svg.addEventListener("focus", () => point(...at));
  const leave = () => {
    cursor.setAttribute("visibility", "hidden");
    for (const name of [...rowNames, ...columnNames]) name.classList.remove("lit");
    readout.textContent = "";
    chosen(-1);
  };
  svg.addEventListener("pointerleave", () => { if (document.activeElement !== svg) leave(); });
  svg.addEventListener("blur", leave);
  return svg;
}

function labelOf(name, x, y, size, upright) {
  if (!upright) return shape("text", { x, y, "font-size": size, "text-anchor": "middle" }, name);
  return shape("text", { x: 0, y: 0, "font-size": size, "dominant-baseline": "central", transform: `translate(${x} ${y}) rotate(-90)` }, name);
}

function squares(plot, panel, left, top, cell) {
  const group = shape("g"), most = strength(plot, panel);
  panel.values.forEach((row, r) => row.forEach((value, c) => {
    const share = Math.min(1, Math.abs(value ?? 0) / most);
    if (share < 0.004) return;
    const hue = plot.scale !== "signed" ? "var(--mark)" : value < 0 ? "var(--minus)" : "var(--plus)";
    group.append(shape("rect", { x: left + cell * c, y: top + cell * r, width: cell, height: cell, fill: hue, "fill-opacity": share.toFixed(3) }));
  }));
  return group;
}

// Numbers in the place of symbols: a few features are curves above their columns, many are a spectrogram or pixels.
function trackOf(track, left, cell, height) {
  const group = shape("g");
  if (track.length > CURVES) {
    const each = height / track.length;
    track.forEach((row, r) => row.forEach((value, c) => {
      if (value > 0.02) group.append(shape("rect", { x: left + cell * c, y: r * each, width: cell, height: each, fill: "currentColor", "fill-opacity": value.toFixed(2) }));
    }));
    return group;
  }
  track.forEach((feature, index) => {
    const points = feature.map((value, c) => `${left + cell * (c + 0.5)},${height - (value ?? 0) * (height - 4)}`).join(" ");
    group.append(shape("polyline", { points, fill: "none", stroke: `var(--series-${(index % 6) + 1})`, "stroke-width": 1.5 }));
  });
  return group;
}

// The picture that was read, with the weights of one output symbol (or the mean of all) over its cells.
function pictureOf(plot, panel) {
  const height = plot.picture.length, width = plot.picture[0].length, side = 240;
  const canvas = element("canvas", { width, height, role: "img", "aria-label": "the input, with the attention over it" });
  const brush = canvas.getContext("2d"), pixels = brush.createImageData(width, height);
  plot.picture.forEach((row, y) => row.forEach((value, x) => pixels.data.set([255 * value, 255 * value, 255 * value, 255], 4 * (y * width + x))));
  brush.putImageData(pixels, 0, 0);
  const rows = plot.grid_rows, columns = plot.columns.length / rows, over = element("div", { class: "over" });
  over.style.gridTemplate = `repeat(${rows}, 1fr) / repeat(${columns}, 1fr)`;
  const cells = plot.columns.map(() => element("i"));
  over.append(...cells);
  const title = element("figcaption", { class: "quiet" }, "");
  const show = (row) => {
    const values = row < 0 ? plot.columns.map((_, c) => panel().values.reduce((sum, each) => sum + (each[c] ?? 0), 0) / panel().values.length) : panel().values[row];
    const most = Math.max(1e-9, ...values.map((value) => value ?? 0));
    cells.forEach((cell, c) => cell.style.setProperty("--weight", ((values[c] ?? 0) / most).toFixed(3)));
    title.textContent = row < 0 ? `${plot.row_name}: mean of all` : `${plot.row_name} ${visible(plot.rows[row])}`;
  };
  const frame = element("div", { class: "seen", style: `width:${side}px;aspect-ratio:${columns}/${rows}` }, canvas, over);
  return { node: element("figure", { class: "picture" }, frame, title), show };
}
