// Draws the numbers that the page sends, with the scripts of `weft inspect`, and says how high they are.

const PARTS = [["header", "head"], ["nav", "lines", "Lines"], ["nav", "contents", "Views"], ["main", "main"]];

function put(parent, tag, attributes, text = "") {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  parent.append(element);
}

addEventListener("message", (event) => {
  if (event.origin !== location.origin || event.source !== parent) return;
  document.body.replaceChildren();
  for (const [tag, id, label] of PARTS) put(document.body, tag, { id, ...(label ? { "aria-label": label } : {}) });
  put(document.body, "script", { type: "application/json", id: "report" }, JSON.stringify(event.data));
  put(document.body, "script", { src: "/page/views.js" });
});
new ResizeObserver(() => parent.postMessage({ height: document.body.offsetHeight + 40 }, location.origin)).observe(document.body);
