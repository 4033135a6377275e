// The request that the page makes, as curl and as Python.

import { formParts, hasFiles, key } from "./server.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function asCurl(question) {
  const lines = [`curl ${location.origin}/predict`];
  if (key()) lines.push("-H 'authorization: Bearer KEY'");
  if (!hasFiles(question)) {
    lines.push("-H 'content-type: application/json'", `-d ${quoted(JSON.stringify(question))}`);
  } else {
    for (const [name, value] of formParts(question)) {
      lines.push(value instanceof File ? `-F ${quoted(`${name}=@${value.name}`)}` : `--form-string ${quoted(`${name}=${value}`)}`);
    }
  }
  return lines.join(" \\\n  ");
}

export function asPython(question) {
  const headers = key() ? ', headers={"authorization": "Bearer KEY"}' : "";
  const lines = ["import requests", ""];
  if (!hasFiles(question)) {
    lines.push(`question = ${literal(question)}`);
    lines.push(`answer = requests.post("${location.origin}/predict", json=question${headers})`);
  } else {
    const parts = formParts(question).map(([name, value]) =>
      value instanceof File ? `(${literal(name)}, open(${literal(value.name)}, "rb"))` : `(${literal(name)}, (None, ${literal(value)}))`);
    lines.push(`parts = [${parts.join(", ")}]`);
    lines.push(`answer = requests.post("${location.origin}/predict", files=parts${headers})`);
  }
  lines.push("answer.raise_for_status()", "for prediction in answer.json()[\"predictions\"]:");
  lines.push('    print(prediction["outputs"][0]["text"])');
  return lines.join("\n");
}

// A value as Python writes it.
function literal(value) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${literal(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}
