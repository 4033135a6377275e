// The routes of the server, from its own OpenAPI document.

import { add } from "./dom.js";

const typeOf = (schema) =>
  schema.anyOf ? schema.anyOf.map(typeOf).join(" or ") : [schema.type ?? "any"].flat().join(" or ");

function addFields(section, schema) {
  const table = add(section, "table");
  const head = add(add(table, "thead"), "tr");
  for (const name of ["field", "type", "default", "meaning"]) add(head, "th", name, { scope: "col" });
  const rows = add(table, "tbody");
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const row = add(rows, "tr");
    add(add(row, "td"), "code", name);
    add(row, "td", typeOf(field));
    add(row, "td", (schema.required ?? []).includes(name) ? "needed" : JSON.stringify(field.default ?? null));
    add(row, "td", field.description ?? "");
  }
}

function addRoute(parent, path, method, route) {
  const section = add(parent, "section");
  add(section, "h2", `${method.toUpperCase()} ${path}`);
  add(section, "p", route.summary);
  for (const [kind, content] of Object.entries(route.requestBody?.content ?? {})) {
    add(section, "h3", `Reads ${kind}`);
    addFields(section, content.schema);
    if (content.example) {
      const body = JSON.stringify(content.example);
      add(section, "pre", `curl ${location.origin}${path} -H 'content-type: ${kind}' -d '${body}'`);
    }
  }
  const statuses = Object.entries(route.responses).map(([status, each]) => `${status} ${each.description}`);
  const details = add(section, "details");
  add(details, "summary", "Statuses");
  const list = add(details, "ul");
  for (const status of statuses) add(list, "li", status);
}

const routes = document.getElementById("routes");
try {
  const described = await (await fetch("/openapi.json")).json();
  routes.replaceChildren();
  for (const [path, methods] of Object.entries(described.paths)) {
    for (const method of ["get", "post"]) if (methods[method]) addRoute(routes, path, method, methods[method]);
  }
} catch (error) {
  routes.textContent = `The description could not be loaded: ${error.message}`;
}
