// What every page has: shortcuts, the theme, rows by j and k, the head of the store in the rail.

import { count } from "./draw.js";

const PAGES = { o: "", e: "/events", s: "/streams", p: "/projections", h: "/snapshots", i: "/integrity", r: "/runs", c: "/community" };
const BASE = "/console";
let waitsForPage = false;

function isTyping(target) {
  return target instanceof HTMLElement && (target.matches("input:not([type=range]), select, textarea") || target.isContentEditable);
}

function showPlace(nav) {
  // by hand: scrollIntoView would also move the point from which Tab continues, past the skip link
  const here = nav?.querySelector("[aria-current=page]");
  if (here) nav.scrollLeft = here.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (waitsForPage) {
    waitsForPage = false;
    const page = PAGES[event.key];
    if (page !== undefined) location.assign(BASE + page);
    return;
  }
  const act = ACTS[event.key];
  if (act && act() !== false) event.preventDefault();
}

const ACTS = {
  g: () => {
    waitsForPage = true;
    setTimeout(() => (waitsForPage = false), 1500);
  },
  t: toggleTheme,
  j: () => step(1),
  k: () => step(-1),
  "/": () => focusOn("[data-filter]"),
  l: () => press("[data-live]"),
  n: () => follow("[rel=next]"),
  b: () => follow("[rel=prev]"),
  "?": () => document.getElementById("keys")?.showModal(),
};

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return false;
  const now = rows.indexOf(document.activeElement);
  const next = rows[now < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, now + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function focusOn(selector) {
  const found = document.querySelector(selector);
  found?.focus();
  return Boolean(found);
}

function press(selector) {
  const found = document.querySelector(selector);
  found?.click();
  return Boolean(found);
}

function follow(selector) {
  const found = document.querySelector(`main ${selector}`);
  if (found) location.assign(found.href);
  return Boolean(found);
}

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("tally.theme", root.dataset.theme);
  } catch {
    // storage may be forbidden; the choice applies to this page
  }
}

export async function ask(path, options = {}) {
  const answer = await fetch(BASE + path, { headers: { accept: "application/json" }, ...options });
  if (answer.status === 401) {
    location.assign(`${BASE}/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    throw new Error("signed out");
  }
  const body = await answer.json();
  if (!answer.ok) throw new Error([body.detail ?? body.title, body.advice].filter(Boolean).join(" "));
  return body;
}

export function showHead(head) {
  const place = document.querySelector("[data-head]");
  if (place) place.textContent = count(head);
}

export function complain(problem) {
  const place = document.getElementById("trouble");
  if (!place) return;
  place.querySelector("p").textContent = problem?.message ?? String(problem);
  place.hidden = false;
}

export function contented() {
  const place = document.getElementById("trouble");
  if (place) place.hidden = true;
}

document.addEventListener("keydown", onKey);
document.querySelector("[data-theme-toggle]")?.addEventListener("click", toggleTheme);
document.querySelector("[data-keys]")?.addEventListener("click", ACTS["?"]);
document.documentElement.dataset.ready = "yes";
showPlace(document.querySelector(".rail nav"));
