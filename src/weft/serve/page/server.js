// Asking the server: JSON for texts and numbers, a form for files.

const KEY = "weft-key";
const PLAIN = ["run", "prefix"]; // fields of a form that are no JSON

export class Refused extends Error {
  constructor(status, content) {
    super(content.error ?? `the server answered ${status}`);
    Object.assign(this, { status, where: content.where ?? "", todo: content.todo ?? "" });
  }
}

export const key = () => sessionStorage.getItem(KEY) ?? "";
export const setKey = (value) => sessionStorage.setItem(KEY, value);

async function answered(path, options = {}, read = (response) => response.json()) {
  const headers = { ...options.headers, ...(key() ? { authorization: `Bearer ${key()}` } : {}) };
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return read(response);
  let content = {};
  try {
    content = await response.json();
  } catch {
    // an answer that a proxy gave
  }
  throw new Refused(response.status, content);
}

export const runs = () => answered("/runs");
export const predict = (question, signal) => answered("/predict", sent(question, signal));
export const inspect = (question, signal) => answered("/inspect", sent(question, signal));
export const report = (question) => {
  const options = sent(question);
  return answered("/inspect", { ...options, headers: { ...options.headers, accept: "text/html" } }, (response) => response.text());
};

function sent(question, signal) {
  const options = { method: "POST", signal };
  if (!hasFiles(question)) {
    return { ...options, headers: { "content-type": "application/json" }, body: JSON.stringify(question) };
  }
  const form = new FormData();
  for (const [name, value] of formParts(question)) form.append(name, value);
  return { ...options, body: form };
}

const inputsOf = (question) => question.inputs ?? [question.input];
const cellsOf = (input) => (input !== null && typeof input === "object" && !Array.isArray(input) && !(input instanceof File) ? input : { source: input });

export const hasFiles = (question) => inputsOf(question).some((input) => Object.values(cellsOf(input)).some((cell) => cell instanceof File));

// The parts of a form: a part for each cell of each input, and the other fields as JSON.
export function formParts(question) {
  const { inputs, input, ...rest } = question;
  const cells = inputsOf(question).flatMap((each) => Object.entries(cellsOf(each)).map(([role, cell]) => [role, asPart(role, cell)]));
  return [...cells, ...Object.entries(rest).map(([name, value]) => [name, PLAIN.includes(name) ? value : JSON.stringify(value)])];
}

const asPart = (role, cell) =>
  role === "features" ? cell.join(" ") : cell instanceof File || typeof cell === "string" ? cell : JSON.stringify(cell);
