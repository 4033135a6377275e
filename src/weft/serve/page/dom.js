// Elements of the page.

export const byId = (id) => document.getElementById(id);

export function add(parent, tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

export const show = (element, visible) => {
  element.hidden = !visible;
};

export function download(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = add(document.body, "textarea", text); // pages without HTTPS have no clipboard
  area.select();
  document.execCommand("copy");
  area.remove();
}
