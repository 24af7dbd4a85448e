// A graph in columns from left to right: nodes are links, so that the keyboard reaches them.
// Given: {columns: [[id, …], …], nodes: {id: {name, fact, state, href, title}}, edges: [{source, target, label}]}

import { svg } from "./draw.js";

const BOX = { width: 168, height: 54, gapY: 18, margin: 24 };
let gapX = 0;

export function graph(root, given, label) {
  gapX = given.edges.some((edge) => edge.label) ? 112 : 44;
  const places = layout(given.columns);
  const rows = Math.max(1, ...given.columns.map((column) => column.length));
  const width = BOX.margin * 2 + given.columns.length * (BOX.width + gapX) - gapX;
  const height = BOX.margin * 2 + rows * (BOX.height + BOX.gapY) - BOX.gapY;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label });
  picture.append(arrow(), ...given.edges.flatMap((edge) => drawn(edge, places)));
  for (const id of given.columns.flat()) picture.append(node(given.nodes[id], places.get(id)));
  root.replaceChildren(picture);
  const own = [...places].find(([id]) => given.nodes[id].state === "self");
  if (own) root.scrollLeft = own[1].x - (root.clientWidth - BOX.width) / 2;
}

function layout(columns) {
  const rows = Math.max(1, ...columns.map((column) => column.length));
  const places = new Map();
  columns.forEach((column, index) => {
    const top = BOX.margin + ((rows - column.length) * (BOX.height + BOX.gapY)) / 2;
    column.forEach((id, row) => {
      places.set(id, { x: BOX.margin + index * (BOX.width + gapX), y: top + row * (BOX.height + BOX.gapY) });
    });
  });
  return places;
}

function arrow() {
  const marker = svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
  marker.append(svg("path", { class: "tip", d: "M0 0 8 4 0 8z" }));
  return svg("defs", {}, marker);
}

function drawn(edge, places) {
  const from = places.get(edge.source);
  const to = places.get(edge.target);
  if (!from || !to) return [];
  const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x - 2, to.y + BOX.height / 2];
  const bend = Math.max((x2 - x1) / 2, 26);
  const parts = [svg("path", { class: "edge", "marker-end": "url(#tip)", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` })];
  if (edge.label && x2 - x1 <= gapX) {
    parts.push(svg("text", { class: "label", x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 6 }, cut(edge.label, 15)));
  }
  return parts;
}

function node(given, place) {
  const group = svg("g", { class: `node ${given.state ?? ""}` });
  group.append(
    svg("title", {}, given.title ?? given.name),
    svg("rect", { x: place.x, y: place.y, width: BOX.width, height: BOX.height, rx: given.state === "input" ? 27 : 4 }),
    svg("text", { class: "name", x: place.x + 12, y: place.y + 23 }, cut(given.name, 22)),
    svg("text", { class: "fact", x: place.x + 12, y: place.y + 41 }, cut(given.fact ?? "", 22)),
  );
  return given.href ? svg("a", { href: given.href, "aria-label": given.title ?? given.name }, group) : group;
}

function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
