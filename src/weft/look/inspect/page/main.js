// The page: the run, the summary, and one line at a time.

const report = JSON.parse(document.getElementById("report").textContent);
const slots = { head: document.getElementById("head"), lines: document.getElementById("lines"), contents: document.getElementById("contents"), main: document.getElementById("main") };
let current = 0;

function theme() {
  const root = document.documentElement, order = { "": "light", light: "dark", dark: "" };
  const button = element("button", { type: "button" }, "theme: as the system");
  button.addEventListener("click", () => {
    const next = order[root.dataset.theme || ""];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    button.textContent = `theme: ${next || "as the system"}`;
  });
  return button;
}

function showHead() {
  const run = report.run;
  slots.head.append(
    element("h1", {}, `What ${run.name} did`),
    element("p", {}, `${run.about} It has ${number(run.parameters)} parameters${run.search ? ` and searches by ${run.search}` : ""}.`),
    ...(report.notes || []).map((note) => element("p", { class: "note" }, note)),
    element("div", { class: "controls" }, theme()),
  );
}

function showChooser() {
  if (report.lines.length < 2) return;
  const options = report.lines.map((line, index) => element("option", { value: index },
    `${index + 1}. ${"is_right" in line ? (line.is_right ? "✓ " : "✗ ") : ""}${shortened(line.input, 40)}${report.run.language_model ? "" : ` → ${shortened(line.output, 40)}`}`));
  const list = element("select", { "aria-label": "line", on: { change: (event) => showLine(Number(event.target.value)) } }, ...options);
  const move = (by) => { list.value = String(Math.max(0, Math.min(report.lines.length - 1, current + by))); showLine(Number(list.value)); };
  slots.lines.list = list;
  slots.lines.append(element("button", { type: "button", on: { click: () => move(-1) } }, "← previous"), list,
    element("button", { type: "button", on: { click: () => move(1) } }, "next →"));
}

function viewSection(name, plots, id) {
  const about = report.views[name];
  const section = element("section", { class: "view", id, "data-view": name }, element("h2", {}, about.title), element("p", { class: "quiet" }, ...prose(about.about)));
  for (const plot of Object.values(plots)) section.append(renderers[plot.plot](plot));
  return section;
}

function lineHead(line) {
  const items = report.run.language_model ? [["text", shortened(line.input, 240)]] : [["input", line.input], ["output", line.output]];
  if ("tag" in line) items.push(["tag", line.tag]);
  if ("features" in line) items.push(["features", line.features.join(" ")]);
  if ("context" in line) items.push(["context", line.context]);
  if ("right" in line && !line.is_right) items.push(["right output", line.right]);
  const verdict = "is_right" in line ? (line.is_right ? " ✓ right" : " ✗ wrong") : line.forced ? " (given, not written by the model)" : "";
  return element("header", {}, element("h2", {}, `Line ${current + 1}${verdict}`),
    element("dl", { class: "facts" }, ...items.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, element("span", { class: "text" }, value))]),
      "log_prob" in line ? [element("dt", {}, "log-probability"), element("dd", {}, number(line.log_prob))] : []),
    line.unseen ? element("p", { class: "warn" }, `Characters that training never had: ${line.unseen.join(" ")}. What the model does with them is a guess.`) : null);
}

// Another line, chosen in a table of all: the list follows, and the reader is taken there.
function openLine(index) {
  slots.lines.list.value = String(index);
  showLine(index);
  document.getElementById("line").scrollIntoView();
}

function showLine(index) {
  current = index;
  const line = report.lines[index];
  document.getElementById("line")?.remove();
  if (!line) return;
  const section = element("section", { class: "line", id: "line" }, lineHead(line));
  for (const [name, plots] of Object.entries(line.views)) section.append(viewSection(name, plots, `line-${name}`));
  slots.main.insertBefore(section, summaryFirst() ? document.getElementById("left-out") : slots.main.querySelector("section.view"));
  showContents();
}

// Of a table, what all lines have in common comes first; of inputs, the line that is looked at.
function summaryFirst() {
  return "errors" in report.summary;
}

function showContents() {
  const links = [...slots.main.querySelectorAll("section.view")].map((section) =>
    element("a", { href: `#${section.id}` }, (section.id.startsWith("all-") && report.lines.length > 1 ? "all lines: " : "") + section.querySelector("h2").textContent));
  slots.contents.replaceChildren(...links);
}

function showLeftOut() {
  const reasons = Object.entries(report.left_out || {});
  if (!reasons.length) return;
  slots.main.append(element("section", { class: "view", id: "left-out" }, element("h2", {}, "Left out"),
    element("dl", { class: "facts" }, ...reasons.flatMap(([name, reason]) => [element("dt", {}, report.views[name].title), element("dd", {}, ...prose(reason))]))));
}

showHead();
showChooser();
for (const [name, plots] of Object.entries(report.summary)) slots.main.append(viewSection(name, plots, `all-${name}`));
showLeftOut();
showLine(0);
document.documentElement.dataset.ready = "true";
