// The outputs: scores, alternatives, and what each symbol of the best output looked at.

import { add } from "./dom.js";
import { addValue } from "./values.js";

const LONG = 300; // characters of an input that are shown

const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
const hasScore = (output) => output.score != null && (output.value === undefined || output.score !== 0); // numbers may have none
const rankOf = (output) =>
  output.probability != null ? percent(output.probability) : hasScore(output) ? output.score.toFixed(3) : "";

// An input as one line: of a file its name, of several parts all but the source, which may be long.
export function inputText(input) {
  if (typeof input === "string") return input;
  if (input instanceof File) return input.name;
  if (Array.isArray(input)) return JSON.stringify(input);
  return Object.values(input).map((cell) => (Array.isArray(cell) && typeof cell[0] === "string" ? cell.join(" ") : inputText(cell))).join(" · ");
}

const shortened = (text) => (text.length > LONG ? `${text.slice(0, LONG)}…` : text);

// Shows the outputs, and returns the items of the list.
export function render(list, inputs, predictions, kind) {
  list.replaceChildren();
  return predictions.map((prediction, number) => {
    const item = add(list, "li", undefined, { class: "result" });
    const output = prediction.outputs[0];
    if (kind === "span") addDocument(item, inputs[number], output.text);
    else add(item, "p", shortened(inputText(inputs[number])), { class: "input faint", dir: "auto" });
    const best = add(item, "p", undefined, { class: "best", dir: "auto" });
    if (prediction.alignment) addAttention(item, best, prediction.alignment);
    else best.append(output.value !== undefined ? shortened(output.text) : output.text || "(empty)");
    add(best, "span", rankOf(output), { class: "score", title: scoreName(output) });
    if (output.value !== undefined) addValue(item, output.value, kind);
    if (prediction.outputs.length > 1) addAlternatives(item, prediction.outputs);
    if (output.tokens?.length && !prediction.alignment) addTokens(item, output.tokens);
    return item;
  });
}

// A question, and its document with the answer marked.
function addDocument(item, { source, context }, answer) {
  add(item, "p", context, { class: "input faint", dir: "auto" });
  const shown = add(item, "p", undefined, { class: "document faint", dir: "auto" });
  const at = answer ? source.indexOf(answer) : -1;
  const [from, to] = at < 0 ? [0, LONG] : [Math.max(0, at - LONG / 2), at + answer.length + LONG / 2];
  if (at < 0) {
    shown.append(shortened(source));
    return;
  }
  shown.append(`${from ? "…" : ""}${source.slice(from, at)}`);
  add(shown, "mark", answer);
  shown.append(`${source.slice(at + answer.length, to)}${to < source.length ? "…" : ""}`);
}

const scoreName = (output) => (output.probability != null ? "probability" : "score: log-probability, by length");

function addAlternatives(item, outputs) {
  const table = add(item, "table", undefined, { class: "alternatives" });
  add(table, "caption", "All outputs, the best first");
  const rows = add(table, "tbody");
  const scores = outputs.map((output) => (output.probability ?? Math.exp(output.score ?? 0)));
  outputs.forEach((output, rank) => {
    const row = add(rows, "tr");
    add(row, "td", output.text || "(empty)", { dir: "auto" });
    const cell = add(row, "td", rankOf(output), { class: "number" });
    add(cell, "meter", undefined, { min: 0, max: Math.max(...scores, 1e-9), value: scores[rank], "aria-hidden": "true" });
  });
}

function addTokens(item, tokens) {
  const line = add(item, "p", undefined, { class: "tokens faint", dir: "auto" });
  for (const [name, score] of tokens) {
    const share = score == null ? 1 : Math.exp(score);
    const token = add(line, "span", name, { class: "token", title: `probability ${percent(share)}` });
    token.style.opacity = String(0.4 + 0.6 * share);
  }
}

// Hovering or focusing a symbol of the output colours what it looked at, and says it to screen readers.
function addAttention(item, best, alignment) {
  const source = document.createElement("p");
  source.className = "attended";
  source.dir = "auto";
  best.before(source);
  const read = alignment.source.map((name) => add(source, "span", name, { class: "token" }));
  const said = add(item, "p", "", { class: "looked faint", "aria-live": "polite" });
  alignment.target.forEach((name, step) => {
    const token = add(best, "span", name, { class: "token", tabindex: 0, role: "button" });
    const weights = alignment.weights[step];
    token.setAttribute("aria-label", `${name}: ${lookedAt(alignment.source, weights)}`);
    const look = () => {
      read.forEach((each, position) => each.style.setProperty("--weight", weights[position] ?? 0));
      said.textContent = `${name} looked at ${lookedAt(alignment.source, weights)}`;
    };
    const leave = () => {
      read.forEach((each) => each.style.setProperty("--weight", 0));
      said.textContent = "";
    };
    token.addEventListener("pointerenter", look);
    token.addEventListener("pointerleave", leave);
    token.addEventListener("focus", look);
    token.addEventListener("blur", leave);
    token.addEventListener("keydown", (event) => step_(event, token));
  });
}

function step_(event, token) {
  const next = { ArrowRight: token.nextElementSibling, ArrowLeft: token.previousElementSibling }[event.key];
  if (next?.tabIndex === 0) {
    next.focus();
    event.preventDefault();
  }
}

function lookedAt(names, weights) {
  const order = weights.map((weight, position) => [weight, names[position]]).sort((a, b) => b[0] - a[0]);
  return order.slice(0, 3).map(([weight, name]) => `${name} (${percent(weight)})`).join(", ");
}

export function asTsv(inputs, predictions) {
  const cell = (text) => String(text ?? "").replaceAll("\\", "\\\\").replaceAll("\t", "\\t").replaceAll("\n", "\\n");
  return predictions
    .flatMap((prediction, number) =>
      prediction.outputs.map((output) =>
        [cell(inputs[number]), cell(output.text), output.probability ?? output.score].join("\t")))
    .join("\n") + "\n";
}

export const asJsonLines = (inputs, predictions) =>
  predictions.map((prediction, number) => JSON.stringify({ source: inputs[number], ...prediction })).join("\n") + "\n";
