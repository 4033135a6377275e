// The views of `weft inspect` for one input, below its outputs, in a frame of their own.

import { add, download } from "./dom.js";
import { inspect, report } from "./server.js";

// Adds a button to a result that opens the views of its input; `question` is that of /inspect.
export function addInspection(item, question, refused) {
  const button = add(item, "button", "Look inside", { type: "button", class: "inside", "aria-expanded": "false" });
  const panel = add(item, "div", undefined, { class: "inspection", hidden: "" });
  button.addEventListener("click", () => {
    const open = panel.hidden;
    panel.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (open && !panel.childElementCount) fill(panel, question, refused);
  });
}

function fill(panel, question, refused) {
  const form = add(panel, "form", undefined, { class: "fields" });
  const force = add(add(form, "label", "Look at this output instead"), "input", undefined, { name: "force", dir: "auto" });
  const change = add(add(form, "label", "What if, such as input:3=x or head:cross.1.2"), "input", undefined, { name: "what_if", dir: "auto" });
  const buttons = add(form, "p");
  add(buttons, "button", "Look again", { type: "submit" });
  const save = add(buttons, "button", "Download the report", { type: "button" });
  const status = add(panel, "p", "", { role: "status", class: "faint" });
  const frame = add(panel, "iframe", undefined, { title: "Views of what the model did", src: "/page/views.html" });
  const loaded = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
  const asked = () => ({
    ...question,
    ...(force.value ? { force: force.value } : {}),
    ...(change.value ? { what_if: change.value.split(/\s+(?=\w+:)/) } : {}),
  });
  const look = async () => {
    status.textContent = "Computing…";
    try {
      const numbers = await inspect(asked());
      await loaded;
      frame.contentWindow.postMessage(numbers, location.origin);
      status.textContent = "";
    } catch (error) {
      status.textContent = "";
      refused(error);
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    look();
  });
  save.addEventListener("click", () => report(asked()).then((page) => download("report.html", page, "text/html"), refused));
  const resize = (event) => {
    if (!frame.isConnected) window.removeEventListener("message", resize); // newer outputs have replaced it
    else if (event.source === frame.contentWindow && event.data.height) frame.style.height = `${Math.ceil(event.data.height) + 8}px`;
  };
  window.addEventListener("message", resize);
  look();
}
