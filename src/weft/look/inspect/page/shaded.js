// Text coloured by a number at each token.

renderers.shaded = (plot) => {
  const readout = element("p", { class: "readout", "aria-live": "polite" }, "");
  const text = element("div", { class: "coloured", tabindex: 0, role: "img", "aria-label": plot.title });
  const show = (panel) => {
    const most = plot.scale === "share" ? 1 : Math.max(1e-9, ...panel.values.map((value) => Math.abs(value ?? 0)));
    text.replaceChildren(...plot.tokens.map((token, index) => {
      const value = panel.values[index] ?? 0;
      const style = `--weight:${Math.min(1, Math.abs(value) / most).toFixed(3)};--shade:var(--${value < 0 ? "minus" : "plus"})`;
      const shown = token === "<end>" ? "<end>\n" : token.length === 1 && token !== "\n" ? token : token === "\n" ? "⏎\n" : token + "\u200b";
      const span = element("span", { style, "data-index": index, on: { mouseenter: () => { readout.textContent = `${visible(token)}: ${number(panel.values[index])}`; } } }, shown);
      return plot.spaced ? [span, " "] : [span];
    }).flat());
  };
  const row = element("div", { class: "controls" });
  if (plot.panels.length > 1) {
    const options = plot.panels.map((each, index) => element("option", { value: index }, each.name));
    row.append(element("label", {}, "unit", element("select", { on: { change: (event) => show(plot.panels[Number(event.target.value)]) } }, ...options)));
  }
  row.append(element("span", { class: "scale" }, plot.scale === "signed" ? "−" : "0", element("i", { class: plot.scale === "signed" ? "signed" : "share" }), { share: "1", size: "largest", signed: "+" }[plot.scale]));
  show(plot.panels[0]);
  return element("div", {}, heading(plot), row, text, readout, remark(plot));
};
