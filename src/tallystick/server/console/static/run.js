// The graph of a run, drawn again when the run has grown, until it ends.

import { ask, complain, contented } from "./console.js";
import { embedded, html } from "./draw.js";
import { graph } from "./graph.js";

const place = document.getElementById("run-graph");
const PAUSE_MS = 700;

function show(found) {
  graph(place, found.graph, "The graph of this run");
  const chip = document.getElementById("run-state");
  chip.className = `chip ${found.tone}`;
  chip.textContent = found.state;
  document.getElementById("run-says").textContent = found.says;
  document.getElementById("run-nodes").replaceChildren(
    ...found.nodes.map((node) =>
      html(
        "tr",
        {},
        html("td", { class: "title" }, node.name),
        html("td", {}, html("span", { class: `chip ${node.tone}` }, node.state)),
        html("td", { "data-label": "attempts", class: "num" }, node.attempts),
        html("td", { "data-label": "took", class: "num" }, node.took),
        html("td", { class: "small break" }, node.says),
      ),
    ),
  );
  place.dataset.seq = String(found.seq);
}

async function look(seq) {
  let next = seq;
  try {
    const found = await ask(`/data/runs/${place.dataset.run}?after=${seq}`);
    if (found.seq !== seq) show(found);
    next = found.seq;
    contented();
    if (found.over) return;
  } catch (problem) {
    complain(problem);
  }
  setTimeout(() => look(next), PAUSE_MS);
}

if (place) {
  const first = embedded("run");
  show(first);
  if (!first.over) look(first.seq);
}
