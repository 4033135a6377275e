// Elements, numbers as text, and what all plots share.

const SVG = "http://www.w3.org/2000/svg";

// An element with attributes and children; text is text, never markup.
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

function shape(name, attributes = {}, text = null) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  return node;
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2);
  let places = size >= 100 ? 1 : size >= 10 ? 2 : digits;
  while (digits === 3 && places < 5 && size < 10 && Number.isInteger(Number(value.toFixed(places)))) places += 1; // 0.99998 is not 1
  return value.toFixed(places);
}

// Symbols that cannot be seen get a shape; an accent by itself gets something to stand on.
function visible(symbol) {
  const shown = { " ": "␣", "\u00a0": "⍽", "\t": "⇥", "\n": "⏎", "": "∅" };
  if (symbol in shown) return shown[symbol];
  const text = symbol.replace(/[ \n\t]/g, (letter) => shown[letter]);
  return /^\p{M}/u.test(text) ? "◌" + text : text;
}

function shortened(text, most = 18) {
  const letters = [...text];
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : text;
}

// A few cells of a canvas measure text, so that labels never overlap squares.
const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text, size) {
  ruler.font = `${size}px system-ui, "DejaVu Sans", sans-serif`;
  return ruler.measureText(text).width;
}

// Text in which `words` between backticks are code.
function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

function heading(plot) {
  return element("h3", {}, plot.title);
}

function remark(plot) {
  return plot.note ? element("p", { class: "quiet" }, ...prose(plot.note)) : null;
}

// A box that scrolls sideways where its content is wide, and says so.
function scrolled(title, ...content) {
  const box = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, ...content);
  const hint = element("p", { class: "hint", hidden: "" }, "scroll sideways for more →");
  new ResizeObserver(() => { hint.hidden = box.scrollWidth <= box.clientWidth + 1; }).observe(box);
  return element("div", {}, hint, box);
}

const renderers = {};
