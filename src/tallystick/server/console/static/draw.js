// Making elements. Text only ever becomes a text node, never markup.

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function embedded(id) {
  const found = document.getElementById(id);
  return found ? JSON.parse(found.textContent) : null;
}

export const finite = (value) => (typeof value === "number" && Number.isFinite(value) ? value : 0);

export function count(value) {
  return Math.round(finite(value)).toLocaleString("en-GB");
}

export function short(value) {
  const given = finite(value);
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(given) >= size) return `${(given / (unit === "k" ? 1e3 : size)).toFixed(1)} ${unit}`;
  }
  return given >= 10 || Number.isInteger(given) ? count(given) : given.toFixed(1);
}

export function bytes(value) {
  let given = finite(value);
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (given < 1000) return `${given < 10 && unit !== "B" ? given.toFixed(1) : Math.round(given)} ${unit}`;
    given /= 1000;
  }
  return `${given.toFixed(1)} TB`;
}

export function seconds(value) {
  const given = finite(value);
  if (given < 1) return given === 0 ? "0 s" : `${Math.round(given * 1000)} ms`;
  if (given < 120) return `${given.toFixed(given < 10 ? 1 : 0)} s`;
  return given < 7200 ? `${Math.round(given / 60)} min` : `${Math.round(given / 3600)} h`;
}
