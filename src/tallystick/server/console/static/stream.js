// The state of a stream at any event, with a slider; what that event changed; and the timeline.

import { ask, complain, contented } from "./console.js";
import { count, html } from "./draw.js";
import { notches } from "./plot.js";

const slider = document.getElementById("at");
const place = document.getElementById("state");
const reducer = document.getElementById("reducer");
let asked = 0;

function changed(change) {
  const parts = [html("span", { class: "path" }, change.path)];
  if (change.before !== null) parts.push(" ", html("del", {}, change.before));
  if (change.after !== null) parts.push(" ", html("ins", {}, change.after));
  return html("li", { class: change.kind }, html("span", {}, ...parts));
}

function show(found) {
  document.getElementById("state-json").textContent = found.state;
  const list = found.changes.map(changed);
  if (!list.length) list.push(html("li", { class: "none" }, found.quiet));
  if (found.cut) list.push(html("li", { class: "none" }, found.cut));
  document.getElementById("changes").replaceChildren(...list);
  document.getElementById("changed-by").textContent = found.event;
  document.getElementById("when").textContent = found.time;
  document.getElementById("state-from").textContent = found.from;
  place.dataset.seq = String(found.seq);
  place.setAttribute("aria-busy", "false");
}

async function look() {
  const mine = (asked += 1);
  const seq = slider.value;
  document.getElementById("seq").textContent = count(Number(seq));
  slider.setAttribute("aria-valuetext", `event ${seq} of ${slider.max}`);
  notches(document.getElementById("notches"), { first: Number(slider.min), last: Number(slider.max), at: Number(seq) });
  document.querySelectorAll(".timeline li").forEach((item) => item.classList.toggle("here", item.dataset.seq === seq));
  place.setAttribute("aria-busy", "true");
  const query = new URLSearchParams({ seq, reducer: reducer?.value ?? "" });
  try {
    const found = await ask(`/data/streams/${place.dataset.stream}/state?${query}`);
    if (mine === asked) {
      show(found);
      contented();
    }
  } catch (problem) {
    if (mine === asked) complain(problem);
  }
}

let pause = 0;
function soon() {
  clearTimeout(pause);
  pause = setTimeout(look, 60);
}

if (slider) {
  slider.addEventListener("input", soon);
  reducer?.addEventListener("change", look);
  document.querySelectorAll("[data-seq-button]").forEach((button) =>
    button.addEventListener("click", () => {
      slider.value = button.dataset.seqButton;
      look();
      slider.focus({ preventScroll: true });
      document.getElementById("state-leaf").scrollIntoView({ block: "nearest" });
    }),
  );
  addEventListener("resize", () => notches(document.getElementById("notches"), { first: Number(slider.min), last: Number(slider.max), at: Number(slider.value) }));
  look();
}
