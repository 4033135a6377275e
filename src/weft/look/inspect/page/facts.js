// A few named values, and a verdict.

renderers.facts = (plot) => {
  const items = Object.entries(plot.items || {}).flatMap(([name, value]) => [
    element("dt", {}, name),
    element("dd", {}, typeof value === "string" ? element("span", { class: "text" }, value) : number(value)),
  ]);
  return element("div", {}, heading(plot),
    plot.verdict ? element("p", { class: plot.warn ? "warn" : "good" }, plot.verdict) : null,
    element("dl", { class: "facts" }, ...items), remark(plot));
};
