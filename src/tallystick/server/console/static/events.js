// The live tail: new events that pass the filter are added at the top of the list, which stays bounded.

import { complain, contented, showHead } from "./console.js";
import { html } from "./draw.js";

const KEPT = 200;
const body = document.querySelector("[data-tail]");
const button = document.querySelector("[data-live]");
const status = document.getElementById("live-status");
let source = null;
let seen = Number(body?.dataset.head ?? 0);

function cell(className, label, ...content) {
  return html("td", { class: className, "data-label": label }, ...content);
}

function row(event) {
  return html(
    "tr",
    { class: "fresh", "data-position": event.position },
    cell("num", "#", String(event.position)),
    html("td", { class: "title" }, html("a", { href: event.href, "data-row": true }, event.type)),
    cell("", null, html("a", { class: "plain", href: event.stream_href }, event.stream), " ", html("span", { class: "quiet mono" }, `·${event.seq}`)),
    cell("", null, html("span", { class: "quiet small" }, event.glance)),
    cell("tight", null, html("time", { datetime: event.instant, title: event.instant }, event.time)),
  );
}

function take(message) {
  const event = JSON.parse(message.data);
  if (event.position <= seen) return;
  seen = event.position;
  document.getElementById("nothing")?.remove();
  document.getElementById("list").hidden = false;
  body.prepend(row(event));
  while (body.children.length > KEPT) body.lastElementChild.remove();
  showHead(event.position);
}

function start() {
  const query = new URLSearchParams(body.dataset.query);
  query.set("after", String(seen));
  source = new EventSource(`/console/data/tail?${query}`);
  source.addEventListener("open", () => {
    status.textContent = "Live: new events appear at the top.";
    contented();
  });
  source.addEventListener("event", take);
  source.addEventListener("error", () => {
    status.textContent = "Connection lost. Reconnecting.";
    if (source?.readyState === EventSource.CLOSED) {
      complain(new Error("The live tail ended. Reload the page, or sign in again."));
      stop();
    }
  });
  button.setAttribute("aria-pressed", "true");
}

function stop() {
  source?.close();
  source = null;
  button.setAttribute("aria-pressed", "false");
  status.textContent = "";
}

if (body && button) {
  button.addEventListener("click", () => (source ? stop() : start()));
  if (body.dataset.live === "yes") start();
  addEventListener("pagehide", () => source?.close());
}
