// Tables: numbers to the right, a click on a heading sorts. Only words that are too long for a column are broken.

const LONG_WORD = /\S{30}/;

renderers.table = (plot) => {
  const numeric = plot.columns.map((_, c) => plot.rows.some((row) => typeof row[c] === "number"));
  const body = element("tbody");
  const shown = (cell, c) => {
    if (plot.opens && c === 0) return element("button", { type: "button", class: "open", on: { click: () => openLine(cell - 1) } }, String(cell));
    return typeof cell === "number" || cell === null ? number(cell) : marked(cell);
  };
  const fill = (rows) => body.replaceChildren(...rows.map(([row, index]) => element("tr",
    (plot.warn || []).includes(index) ? { class: "warned" } : {},
    ...row.map((cell, c) => element("td", { class: numeric[c] ? "number" : classOf(cell) }, shown(cell, c))))));
  const rows = plot.rows.map((row, index) => [row, index]);
  const heads = plot.columns.map((name, c) => {
    const head = element("th", { scope: "col", class: numeric[c] ? "number" : null });
    head.append(element("button", { type: "button", on: { click: () => sort(head, c) } }, name));
    return head;
  });
  const sort = (head, c) => {
    const descending = head.getAttribute("aria-sort") !== "descending";
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const sign = descending ? -1 : 1;
    fill([...rows].sort(([a], [b]) => sign * (numeric[c] ? (a[c] ?? -Infinity) - (b[c] ?? -Infinity) : String(a[c] ?? "").localeCompare(String(b[c] ?? "")))));
  };
  fill(rows);
  const table = element("table", { "aria-label": plot.title }, element("thead", {}, element("tr", {}, ...heads)), body);
  return element("div", {}, heading(plot), scrolled(plot.title, table), remark(plot), marks(plot));
};

function marks(plot) {
  return plot.marks && (plot.warn || []).length ? element("p", { class: "quiet" }, `Rows with a coloured edge: ${plot.marks}.`) : null;
}

// Words stay whole: a short text is one line, a longer one has room for some words on each.
function classOf(cell) {
  if (LONG_WORD.test(cell)) return "long";
  const length = [...String(cell ?? "")].length;
  return length > 28 ? "words" : "short";
}

// White space that is a symbol can be seen: alone, or at the ends of a text.
function marked(text) {
  if (text.length && !text.trim()) return [...text].map(visible).join("");
  return text.replace(/^ | $/g, "␣").replace(/\n/g, "⏎");
}
