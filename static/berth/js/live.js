/* Live data: one event stream per tab, at most one refresh per second; polling without a stream.

   Nothing is refreshed while the tab is hidden. The next refresh waits five times as long as the last one took, so that
   a busy server is not overloaded. */
import { wallTime } from "./format.js";

const POLL_MS = 5000;
const STALE_MS = 20000;
const QUIET_MS = 10000; // without an event for so long, refresh anyway: ages and clocks change
const EVENTS = [
  "job.updated",
  "decision.created",
  "server.updated",
  "application.created",
  "application.updated",
  "application.profiled",
  "application.overridden",
  "application.override_withdrawn",
  "application.drifted",
  "revision.created",
  "front.updated",
  "plan.updated",
  "loop.updated",
  "loop.looked",
  "operation.created",
  "operation.progress",
  "operation.updated",
  "operation.finished",
  "cluster.updated",
  "gap",
  "hello",
];

const connection = document.getElementById("conn");
const word = document.getElementById("conn-word");
const age = document.getElementById("conn-age");
let refresh = async () => {};
let paused = false;
let eventsWaiting = 0;
let dirty = false;
let running = false;
let notBefore = 0;
let refreshedAt = Date.now();
let mode = "polling";
let source = null;

export function startLive(callback) {
  if (!connection) return;
  if ("past" in document.body.dataset) {
    connection.dataset.state = "polling";
    word.textContent = "Not live";
    return;
  }
  refresh = callback;
  const url = document.querySelector("meta[name=berth-stream]").content;
  if (url && "EventSource" in window) connect(url);
  setInterval(tick, 1000);
  setInterval(() => {
    if (!paused && (mode !== "live" || Date.now() - refreshedAt > QUIET_MS)) mark(0);
  }, POLL_MS);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) mark(0);
  });
  window.addEventListener("pagehide", () => source?.close());
  show();
}

export function togglePause() {
  if (!connection || "past" in document.body.dataset) return;
  paused = !paused;
  const button = document.querySelector("[data-act=pause]");
  button.setAttribute("aria-pressed", String(paused));
  button.querySelector("span").textContent = paused ? "Resume" : "Pause";
  button.querySelector("use").setAttribute("href", paused ? "#i-play" : "#i-pause");
  if (!paused) {
    eventsWaiting = 0;
    dirty = true;
    tick();
  }
  show();
}

function connect(url) {
  source = new EventSource(url, { withCredentials: true });
  source.onopen = () => {
    mode = "live";
    show();
  };
  source.onerror = () => {
    mode = source.readyState === EventSource.CLOSED ? "polling" : "reconnecting";
    show();
  };
  source.onmessage = () => mark(1);
  for (const name of EVENTS)
    source.addEventListener(name, () => {
      mark(1);
      document.dispatchEvent(new CustomEvent("berth:event", { detail: { name } }));
    });
}

function mark(count) {
  eventsWaiting += count;
  dirty = true;
}

async function tick() {
  show();
  if (!dirty || paused || running || document.hidden || Date.now() < notBefore) return;
  dirty = false;
  eventsWaiting = 0;
  running = true;
  const began = performance.now();
  try {
    await refresh();
    refreshedAt = Date.now();
  } catch {
    dirty = true;
  } finally {
    running = false;
    const took = performance.now() - began;
    notBefore = Date.now() + Math.min(15000, Math.max(900, took * 5));
    show();
  }
}

function show() {
  const ageMs = Date.now() - refreshedAt;
  const state = paused ? "polling" : ageMs > STALE_MS && !document.hidden ? "stale" : mode;
  const words = { live: "Live", reconnecting: "Reconnecting", polling: "Polling", stale: "Stale" };
  const status = paused ? (eventsWaiting ? `Paused, ${eventsWaiting} waiting` : "Paused") : words[state];
  if (connection.dataset.state !== state) connection.dataset.state = state;
  if (word.textContent !== status) word.textContent = status;
  const text = `data as of ${wallTime(refreshedAt)}`;
  if (age.textContent !== text) age.textContent = text;
}
