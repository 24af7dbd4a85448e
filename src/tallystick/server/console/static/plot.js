// The plots of the console: the stick, whose two halves should match, and plain lines. Sizes follow the element.

import { finite, svg } from "./draw.js";

const STICK = { upper: [6, 54], lower: [58, 106], depth: 36, height: 112 };

export function stick(root, upper, lower) {
  const width = Math.max(root.clientWidth, 200);
  root.setAttribute("viewBox", `0 0 ${width} ${STICK.height}`);
  const most = Math.max(1, ...upper.map(finite), ...(lower ?? []).map(finite));
  const parts = [];
  half(parts, width, STICK.upper, upper, most, 1);
  if (lower) half(parts, width, STICK.lower, lower, most, -1);
  root.replaceChildren(...parts);
}

function half(parts, width, [top, bottom], values, most, direction) {
  parts.push(svg("rect", { class: "wood", x: 0, y: top, width, height: bottom - top, rx: 2 }));
  for (const [at, from, to] of [[0.34, 0, 0.7], [0.52, 0.25, 1], [0.74, 0.05, 0.6]]) {
    const y = top + (bottom - top) * (direction > 0 ? at : 1 - at);
    parts.push(svg("line", { class: "grain", x1: width * from, x2: width * to, y1: y, y2: y }));
  }
  const step = width / Math.max(values.length, 1);
  const edge = direction > 0 ? top : bottom;
  values.forEach((value, index) => {
    const given = finite(value);
    if (given <= 0) return;
    const x = step * (index + 0.5);
    const deep = edge + direction * Math.max(4, (given / most) * STICK.depth);
    const reach = Math.max(1.5, Math.min(step * 0.46, 7));
    const tip = `${x - reach} ${edge} ${x} ${deep} ${x + reach} ${edge}`;
    parts.push(svg("polygon", { class: "cut", points: `${x - reach} ${edge - direction} ${tip} ${x + reach} ${edge - direction}` }));
    parts.push(svg("polyline", { class: "edge", points: tip }));
  });
}

export function line(root, values, format) {
  const width = Math.max(root.clientWidth, 120);
  const height = Math.max(root.clientHeight, 60);
  root.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const given = values.map(finite);
  const { low, high } = range(given);
  const base = height - 2;
  const y = (value) => base - ((value - low) / (high - low)) * (base - 14);
  const x = (index) => (given.length < 2 ? width - 4 : (index / (given.length - 1)) * (width - 4));
  const points = given.map((value, index) => `${x(index).toFixed(1)} ${y(value).toFixed(1)}`);
  const parts = [
    svg("line", { class: "grid", x1: 0, x2: width, y1: 14, y2: 14 }),
    svg("line", { class: "axis", x1: 0, x2: width, y1: base, y2: base }),
  ];
  if (points.length > 1) {
    parts.push(svg("polygon", { class: "area", points: `0 ${base} ${points.join(" ")} ${width - 4} ${base}` }));
    parts.push(svg("polyline", { class: "line", points: points.join(" ") }));
  }
  if (points.length) {
    const last = given.length - 1;
    parts.push(svg("circle", { class: "now", cx: x(last), cy: y(given[last]), r: 3.5 }));
  }
  parts.push(svg("text", { x: 0, y: 10 }, format(high)));
  root.replaceChildren(...parts);
}

function range(values) {
  const high = Math.max(...values, 0);
  const low = Math.min(...values, high);
  const floor = low > 0 && high > 0 && low / high > 0.5 ? low - (high - low) * 0.2 : 0;
  return high > floor ? { low: floor, high } : { low: Math.max(0, high - 1), high: high + 1 };
}

export function notches(root, { first, last, at }) {
  const width = Math.max(root.clientWidth, 120);
  root.setAttribute("viewBox", `0 0 ${width} 34`);
  const span = Math.max(1, last - first);
  const shown = Math.min(span + 1, 120, Math.floor(width / 7));
  const parts = [svg("rect", { class: "wood", x: 0, y: 12, width, height: 20, rx: 2 })];
  for (let index = 0; index < shown; index += 1) {
    const x = 8 + (shown === 1 ? 0 : (index / (shown - 1)) * (width - 16));
    parts.push(svg("line", { class: "notch", x1: x, x2: x, y1: 12, y2: (index + 1) % 5 === 0 ? 27 : 21 }));
  }
  const here = 8 + ((at - first) / span) * (width - 16);
  parts.push(svg("line", { class: "at", x1: here, x2: here, y1: 4, y2: 34 }));
  root.replaceChildren(...parts);
}
