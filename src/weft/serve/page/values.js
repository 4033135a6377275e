// Outputs that are no text, drawn: series of numbers as lines, notes as a piano roll that can be played.

import { add } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, STEP_SECONDS] = [600, 120, 0.25];

function shape(parent, tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

export function addValue(item, value, kind) {
  if (!Array.isArray(value) || !value.length) return;
  const steps = value.map((each) => (Array.isArray(each) ? each : [each]));
  const label = `${kind}: ${steps.length} step${steps.length === 1 ? "" : "s"}`;
  const svg = shape(item, "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, class: "drawn" });
  (kind === "notes" ? drawNotes : drawSeries)(svg, steps);
  if (kind === "notes" && window.AudioContext) {
    add(item, "button", "Play", { type: "button" }).addEventListener("click", () => play(steps));
  }
}

function scale(values, from, to) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return (value) => from + ((value - least) / (most - least || 1)) * (to - from);
}

function drawSeries(svg, steps) {
  const x = scale([0, Math.max(1, steps.length - 1)], 8, WIDTH - 8);
  steps[0].forEach((_, feature) => {
    const y = scale(steps.map((step) => step[feature]).filter(Number.isFinite), HEIGHT - 8, 8); // each fills the height
    const points = steps.map((step, time) => [x(time), y(step[feature])]).filter((point) => point.every(Number.isFinite));
    shape(svg, "polyline", { points: points.map((point) => point.join(",")).join(" "), class: `series series-${feature % 4}` });
    for (const [left, top] of points) shape(svg, "circle", { cx: left, cy: top, r: 2.5, class: `dot series-${feature % 4}` });
  });
}

function drawNotes(svg, steps) {
  const pitches = steps.flat();
  if (!pitches.length) return;
  const [least, most] = [Math.min(...pitches), Math.max(...pitches)];
  const [wide, high] = [WIDTH / steps.length, HEIGHT / (most - least + 1)];
  steps.forEach((step, time) => step.forEach((pitch) =>
    shape(svg, "rect", { x: time * wide, y: (most - pitch) * high, width: Math.max(1, wide - 1), height: Math.max(1, high - 0.5), class: "note" })));
}

function play(steps) {
  const context = new AudioContext();
  const loudness = context.createGain();
  loudness.gain.value = 0.15 / Math.max(1, ...steps.map((step) => step.length));
  loudness.connect(context.destination);
  steps.forEach((step, time) => step.forEach((pitch) => {
    const tone = context.createOscillator();
    tone.type = "triangle";
    tone.frequency.value = 440 * 2 ** ((pitch - 69) / 12);
    tone.connect(loudness);
    tone.start(context.currentTime + time * STEP_SECONDS);
    tone.stop(context.currentTime + (time + 1) * STEP_SECONDS);
  }));
  setTimeout(() => context.close(), 1000 * (steps.length * STEP_SECONDS + 0.5));
}
