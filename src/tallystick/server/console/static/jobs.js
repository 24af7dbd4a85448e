// Long operations: a form starts one, its progress is shown until it ends, then the page is loaded again.

import { ask, complain } from "./console.js";
import { count } from "./draw.js";

const PAUSE_MS = 250;

function show(place, job) {
  place.hidden = false;
  const bar = place.querySelector(".progress");
  const part = job.total ? Math.min(100, (job.done / job.total) * 100) : job.state === "running" ? 5 : 100;
  bar.firstElementChild.style.width = `${part}%`;
  bar.setAttribute("aria-valuenow", String(Math.round(part)));
  bar.classList.toggle("done", job.state === "done");
  bar.classList.toggle("failed", job.state === "failed");
  const total = job.total ? ` of ${count(job.total)}` : "";
  place.querySelector("[data-said]").textContent = job.says ?? `${count(job.done)}${total} events, ${job.state}`;
  place.dataset.state = job.state;
}

function goTo(address) {
  if (address) location.assign(address);
  else location.reload();
}

async function follow(place, id) {
  const job = await ask(`/data/jobs/${id}`);
  show(place, job);
  if (job.over) {
    if (job.state === "done" && place.dataset.reload !== undefined) goTo(place.dataset.reload.replace("{id}", id));
    return;
  }
  setTimeout(() => follow(place, id).catch(complain), PAUSE_MS);
}

document.querySelectorAll("form[data-job]").forEach((form) =>
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const place = document.getElementById(form.dataset.job);
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      const begun = await ask(form.dataset.path, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      await follow(place, begun.id);
    } catch (problem) {
      complain(problem);
    }
    button.disabled = false;
  }),
);

document.querySelectorAll("[data-running-job]").forEach((place) => follow(place, place.dataset.runningJob).catch(complain));
