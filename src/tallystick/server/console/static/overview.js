// The overview, updated once a second while somebody looks. Rates come from the heads of neighbouring samples.

import { ask, complain, contented, showHead } from "./console.js";
import { bytes, count, embedded, html, seconds, short } from "./draw.js";
import { line, stick } from "./plot.js";

const SHOWN = 120;
const PAUSE_MS = 1000;
let samples = embedded("samples").samples;

function rates(key) {
  return samples.slice(1).map((sample, index) => {
    const before = samples[index];
    if (sample[key] === null || before[key] === null) return 0;
    return Math.max(0, sample[key] - before[key]) / Math.max(0.2, sample.time - before.time);
  });
}

const padded = (values) => [...Array(Math.max(0, SHOWN - values.length)).fill(0), ...values].slice(-SHOWN);
const put = (name, text) => document.querySelectorAll(`[data-show="${name}"]`).forEach((place) => (place.textContent = text));

function paint() {
  const appended = padded(rates("head"));
  const applied = samples.some((sample) => sample.applied !== null) ? padded(rates("applied")) : null;
  stick(document.getElementById("stick"), appended, applied);
  line(document.getElementById("plot-rate"), appended, (value) => `${short(value)}/s`);
  line(document.getElementById("plot-lag"), samples.slice(-SHOWN).map((sample) => sample.lag), (value) => `${short(value)} events`);
  line(document.getElementById("plot-size"), samples.slice(-SHOWN).map((sample) => sample.bytes), bytes);
  const recent = appended.slice(-5);
  put("rate", `${short(recent.reduce((sum, value) => sum + value, 0) / recent.length)}/s`);
}

function tell(now) {
  const last = samples.at(-1);
  if (last) {
    put("head", count(last.head));
    put("lag", `${short(last.lag)} events`);
    put("size", last.bytes === null ? "unknown" : bytes(last.bytes));
    showHead(last.head);
  }
  now.projections.forEach((each) => {
    const row = [...document.querySelectorAll("[data-projection]")].find((found) => found.dataset.projection === each.key);
    if (!row) return;
    row.querySelector("[data-lag]").textContent = count(each.events);
    row.querySelector("[data-age]").textContent = seconds(each.seconds);
    row.querySelector("[data-bar]").style.width = `${each.part}%`;
  });
  const verdict = document.getElementById("verdict");
  if (verdict.textContent !== now.verdict.says) verdict.textContent = now.verdict.says;
  verdict.className = `chip large ${now.verdict.state}`;
  const list = document.getElementById("health");
  list.replaceChildren(...now.health.map((each) => html("li", { class: each.state }, html("span", { class: `chip ${each.state}` }, each.what), html("span", { class: "says" }, each.says))));
}

async function look() {
  try {
    const now = await ask(`/data/overview?since=${samples.at(-1)?.time ?? 0}`);
    samples = [...samples, ...now.samples].slice(-600);
    if (String(now.holes) !== document.getElementById("main").dataset.holes) location.reload(); // damage was found
    tell(now);
    paint();
    contented();
  } catch (problem) {
    complain(problem);
  }
  setTimeout(turn, PAUSE_MS);
}

function turn() {
  if (document.hidden) document.addEventListener("visibilitychange", turn, { once: true });
  else look();
}

addEventListener("resize", paint);
paint();
turn();
