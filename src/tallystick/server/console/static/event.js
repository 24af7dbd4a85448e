// Causes and consequences of one event. Consequences are found by a scan, which goes further on demand.

import { ask, complain } from "./console.js";
import { embedded } from "./draw.js";
import { graph } from "./graph.js";

const place = document.getElementById("causes");
const more = document.getElementById("look-further");
const reach = document.getElementById("reach");

function show(found) {
  graph(place, found, "Causes and consequences of this event");
  reach.textContent = found.says;
  more.hidden = !found.more;
}

async function further() {
  more.disabled = true;
  try {
    show(await ask(`/data/events/${place.dataset.event}/causes?reach=${Number(more.dataset.reach) * 4}`));
    more.dataset.reach = String(Number(more.dataset.reach) * 4);
  } catch (problem) {
    complain(problem);
  }
  more.disabled = false;
}

if (place) {
  show(embedded("graph"));
  more.addEventListener("click", further);
}
