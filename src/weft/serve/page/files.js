// Files as inputs: chosen, dropped or recorded, with a preview of each.

import { add, byId, show } from "./dom.js";
import { recorder } from "./recording.js";

// Adds a field for files to a box, and returns what was chosen.
export function fileField(box, { role, name, endings }, changed) {
  let chosen = [];
  const drop = add(box, "div", undefined, { class: "drop" });
  const line = add(drop, "p");
  const label = add(line, "label", `Files, one for each ${name === "source" ? "input" : name} `);
  const input = add(label, "input", undefined, { type: "file", id: `${role}-files`, accept: endings.join(","), multiple: "" });
  const record = add(line, "button", "Record", { type: "button", id: `${role}-record`, "aria-pressed": "false" });
  const clear = add(line, "button", "Remove all", { type: "button", id: `${role}-clear` });
  add(drop, "p", `Or drop files here: ${endings.join(", ")}.`, { class: "faint" });
  const list = add(drop, "ul", undefined, { class: "chosen", id: `${role}-chosen` });
  const take = (files) => {
    chosen = files;
    preview(list, chosen);
    show(clear, chosen.length > 0);
    changed(0);
  };
  const more = (files) => take([...chosen, ...files]);
  input.addEventListener("change", () => {
    more(input.files);
    input.value = "";
  });
  clear.addEventListener("click", () => take([]));
  show(clear, false);
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") more(event.dataTransfer.files);
    });
  }
  const microphone = endings.includes(".wav") && recorder(record, () => chosen.length, (file) => more([file]), tell);
  show(record, Boolean(microphone));
  return { files: () => chosen };
}

const tell = (message) => {
  byId("status").textContent = message;
};

function preview(list, files) {
  for (const shown of list.querySelectorAll("[src]")) URL.revokeObjectURL(shown.src);
  list.replaceChildren();
  for (const file of files) {
    const item = add(list, "li", `${file.name} `);
    const address = URL.createObjectURL(file);
    if (file.type.startsWith("image/")) add(item, "img", undefined, { src: address, alt: file.name });
    if (file.type.startsWith("audio/")) add(item, "audio", undefined, { src: address, controls: "" });
  }
}
