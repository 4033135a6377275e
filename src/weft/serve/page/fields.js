// The parts of an input, as the server describes them: text, lists of numbers or notes, files; and tags and features.

import { add, show } from "./dom.js";
import { fileField } from "./files.js";

const MARKS = { tag: "Tag of every input", features: "Features of every input, separated by spaces" };
const titled = (name) => name.charAt(0).toUpperCase() + name.slice(1);

// Puts the fields of a run into `parent`; `rows` returns its inputs, in whose cells files are File objects.
export function buildFields(parent, described, changed) {
  parent.replaceChildren();
  const fields = described.map((field) => (MARKS[field.role] ? markField : cellField)(parent, field, changed));
  return { rows: () => rowsOf(fields), fill: (role, text) => fields.find((each) => each.role === role)?.fill(text) };
}

function markField(parent, { role }, changed) {
  const label = add(parent, "label", `${MARKS[role]} `, { class: "extra" });
  const input = add(label, "input", undefined, { id: role, dir: "auto" });
  input.addEventListener("input", () => changed());
  const value = () => (role === "features" ? input.value.split(/\s+/).filter(Boolean) : input.value);
  return { role, cells: () => [value()], fill: (text) => (input.value = text) };
}

function cellField(parent, field, changed) {
  const { role, kind, lists, endings } = field;
  const box = add(parent, "div", undefined, { class: "part" });
  const text = kind === "text" || lists ? textArea(box, field, changed) : null;
  const dropped = endings.length ? fileField(box, field, changed) : null;
  const cells = () => (dropped?.files().length ? dropped.files() : (text?.cells() ?? []));
  return { role, cells, fill: (content) => text?.fill(content) };
}

// A text area with one input on each line; texts that have a name of their own (a document, a prompt) may have lines.
function textArea(box, { role, kind, name }, changed) {
  const isText = kind === "text";
  const each = name === role ? (role === "source" ? "input" : name) : name;
  const label = add(box, "label", "", { for: role });
  const area = add(box, "textarea", undefined, { id: role, rows: role === "source" ? 6 : 3, dir: "auto", spellcheck: "false" });
  const option = add(box, "label", undefined, { class: "option faint" });
  const byLine = add(option, "input", undefined, { type: "checkbox", id: `${role}-lines` });
  option.append(` Each line is another ${each}`);
  byLine.checked = !isText || name === role || role === "context";
  show(option, isText);
  const title = () => {
    label.textContent = byLine.checked ? `${titled(each)}s, one on each line${isText ? "" : `: ${kind} as JSON`}` : titled(each);
  };
  title();
  area.addEventListener("input", () => changed());
  byLine.addEventListener("change", () => {
    title();
    changed(0);
  });
  const lines = () => (byLine.checked ? area.value.split("\n") : [area.value]).filter((line) => line.trim());
  return { cells: () => (isText ? lines() : lines().map(parsed)), fill: (content) => (area.value = content) };
}

function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return line; // the server says what is wrong
  }
}

// A part that is given once is that of every input.
function rowsOf(fields) {
  const columns = fields.map((field) => ({ role: field.role, cells: field.cells() }));
  const given = columns.filter(({ role }) => !MARKS[role]);
  const count = given.every(({ cells }) => cells.length) ? Math.max(...given.map(({ cells }) => cells.length)) : 0;
  const odd = given.find(({ cells }) => cells.length !== 1 && cells.length !== count);
  if (count && odd) throw new Error(`There are ${count} inputs, but ${odd.cells.length} of ${odd.role}: give one for all, or one for each.`);
  return Array.from({ length: count }, (_, row) =>
    columns.length === 1
      ? columns[0].cells[row]
      : Object.fromEntries(columns.map(({ role, cells }) => [role, cells.length === 1 ? cells[0] : cells[row]])));
}
