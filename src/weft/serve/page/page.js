// The page: what is written is asked after a moment, and the newest answer is shown.

import { add, byId, copy, download, show } from "./dom.js";
import { buildFields } from "./fields.js";
import { addInspection } from "./inspect.js";
import { asCurl, asPython } from "./request.js";
import { asJsonLines, asTsv, inputText, render } from "./results.js";
import { predict, runs, setKey } from "./server.js";

const PAUSE = 350; // milliseconds after the last key
const ALIGNED = 16; // inputs whose attention is asked for
const ALTERNATIVES = 3; // outputs of each input, unless something else is chosen
const NUMBERS = ["width", "length_penalty", "temperature", "top_k", "top_p", "seed", "length"];
let described = [];
let fields = null;
let timer = 0;
let running = null;
let last = { inputs: [], predictions: [] };

const run = () => described.find((each) => each.name === byId("run").value) ?? described[0];

async function start() {
  try {
    const answer = await runs();
    described = answer.runs;
    byId("nbest").max = answer.limits.nbest;
    byId("width").max = answer.limits.beam;
  } catch (error) {
    refused(error);
    if (error.status === 503) setTimeout(start, 1000);
    return;
  }
  byId("run").replaceChildren();
  for (const each of described) add(byId("run"), "option", each.name);
  show(byId("choose"), described.length > 1);
  show(byId("locked"), false);
  show(byId("problem"), false);
  chooseRun();
}

function chooseRun() {
  const { name, task, inputs, target, languages, search } = run();
  const pairs = languages.length ? ` (${languages.map((pair) => pair.join(" to ")).join(", ")})` : "";
  byId("about").textContent = `${name}${pairs}: ${task}, ${inputs.map((each) => each.kind).join(" and ")} to ${target}`;
  fields = buildFields(byId("inputs"), inputs, soon);
  listSearches();
  for (const field of NUMBERS) byId(field).placeholder = search[field] ?? "";
  const fits = { text: target === "text", length: ["text", "numbers", "notes"].includes(target) };
  for (const label of document.querySelectorAll("[data-when]")) show(label, fits[label.dataset.when]);
  chooseKind();
  soon(0);
}

// The searches that the run can do, with its own settings.
function listSearches() {
  const { searches, search, target } = run();
  byId("kind").replaceChildren();
  add(byId("kind"), "option", searches.includes(search.kind) ? `as the run (${search.kind})` : "as the run", { value: "" });
  for (const kind of searches) add(byId("kind"), "option", kind);
  show(byId("kind").parentElement, searches.length > 1);
  const several = target === "label" || target === "span" || (target === "text" && search.kind === "beam");
  byId("nbest").value = several ? Math.min(ALTERNATIVES, byId("nbest").max) : 1;
  for (const field of [...NUMBERS, "prefix"]) byId(field).value = "";
}

function chooseKind() {
  const { searches, search, target } = run();
  const kind = byId("kind").value || (searches.includes(search.kind) ? search.kind : "");
  for (const label of document.querySelectorAll("[data-kinds]")) show(label, label.dataset.kinds === kind);
  show(byId("nbest").parentElement, !(target === "text" && kind === "greedy")); // which finds only one output
}

const isGiven = (field) => byId(field).value !== "" && !byId(field).closest("[hidden]");

function question() {
  const search = {};
  if (byId("kind").value) search.kind = byId("kind").value;
  for (const field of NUMBERS) if (isGiven(field)) search[field] = Number(byId(field).value);
  const asked = { inputs: fields.rows() };
  if (described.length > 1) asked.run = run().name;
  if (isGiven("nbest") && byId("nbest").value > 1) asked.nbest = Number(byId("nbest").value);
  if (Object.keys(search).length) asked.search = search;
  if (isGiven("prefix")) asked.prefix = byId("prefix").value;
  if (byId("attention").checked && run().target === "text" && asked.inputs.length <= ALIGNED) asked.alignment = true;
  return asked;
}

function soon(wait = PAUSE) {
  byId("outputs").setAttribute("aria-busy", "true"); // what is there belongs to what was written before
  clearTimeout(timer);
  timer = setTimeout(ask, wait);
}

async function ask() {
  running?.abort();
  if (!described.length) return;
  const mine = (running = new AbortController());
  try {
    const asked = question();
    const example = asked.inputs.length ? asked : { ...asked, inputs: ["…"] };
    byId("curl").textContent = asCurl(example);
    byId("python").textContent = asPython(example);
    if (!asked.inputs.length) shown({ inputs: [], predictions: [] }, "");
    else await answer(asked, mine.signal);
  } catch (error) {
    if (error.name !== "AbortError") refused(error);
  }
}

async function answer(asked, signal) {
  byId("status").textContent = "Asking…";
  const began = performance.now();
  const { predictions, notes } = await predict(asked, signal);
  const count = `${asked.inputs.length} input${asked.inputs.length === 1 ? "" : "s"}`;
  const told = notes.map((note) => ` Note: ${note}.`).join("");
  shown({ inputs: asked.inputs, predictions }, `${count} in ${Math.round(performance.now() - began)} ms.${told}`);
}

function shown(results, status) {
  last = { inputs: results.inputs.map(inputText), predictions: results.predictions };
  const items = render(byId("outputs"), results.inputs, results.predictions, run().target);
  const named = described.length > 1 ? { run: run().name } : {};
  items.forEach((item, number) => addInspection(item, { input: results.inputs[number], ...named }, refused));
  byId("outputs").setAttribute("aria-busy", "false");
  byId("status").textContent = status;
  show(byId("problem"), false);
  show(byId("downloads"), results.predictions.length > 0);
}

function refused(error) {
  const problem = byId("problem");
  problem.replaceChildren();
  byId("outputs").setAttribute("aria-busy", "false");
  byId("status").textContent = "";
  add(problem, "p", error instanceof TypeError ? "The server does not answer." : error.message);
  if (error.where) add(problem, "p", `Where: ${error.where}`);
  if (error.todo) add(problem, "p", `To do: ${error.todo}`);
  show(problem, true);
  show(byId("locked"), error.status === 401 || !byId("locked").hidden);
}

byId("form").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["nbest", "prefix", ...NUMBERS]) byId(id).addEventListener("input", () => soon());
byId("attention").addEventListener("change", () => soon(0));
byId("inputs").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) soon(0);
});
byId("kind").addEventListener("change", () => {
  chooseKind();
  soon(0);
});
byId("run").addEventListener("change", chooseRun);
byId("key").addEventListener("change", () => {
  setKey(byId("key").value);
  start();
});
byId("tsv").addEventListener("click", () => download("outputs.tsv", asTsv(last.inputs, last.predictions), "text/tab-separated-values"));
byId("jsonl").addEventListener("click", () => download("outputs.jsonl", asJsonLines(last.inputs, last.predictions), "application/x-ndjson"));
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    await copy(byId(button.dataset.from).textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}
start();
