/* The clocks of the bar: cluster time with its rate, and wall time. */
import { call } from "./api.js";
import { byId } from "./dom.js";
import { clusterRate, clusterTime, wallTime } from "./format.js";

const TICK_MS = 1000;
const SYNC_MS = 30000;

let clusterS = 0; // at the anchor
let speed = 0;
let offsetMs = 0; // wall time of the server minus that of the browser
let anchorMs = 0; // performance.now() at the anchor

function set(answer) {
  clusterS = answer.now_s;
  speed = answer.speed;
  offsetMs = Date.parse(answer.wall) - Date.now();
  anchorMs = performance.now();
}

/* Cluster seconds now. */
export const clusterNow = () => clusterS + (speed * (performance.now() - anchorMs)) / 1000;

function write(node, text) {
  if (node && node.textContent !== text) node.textContent = text;
}

function show() {
  if (document.hidden) return;
  write(document.querySelector("#cluster-clock time"), clusterTime(clusterNow()));
  write(byId("cluster-rate"), clusterRate(speed));
  write(document.querySelector("#wall-clock time"), wallTime(Date.now() + offsetMs));
}

async function sync() {
  if (document.hidden) return;
  try {
    set((await call("GET", "/api/v1/cluster/clock/")).value);
  } catch {
    return; // the light in the bar says that the server cannot be reached; the clock runs on
  }
  show();
}

export function startClock() {
  const clock = byId("clocks");
  if (!clock) return;
  const { now, speed: rate, wall } = clock.dataset;
  set({ now_s: Number(now), speed: Number(rate), wall });
  show();
  setInterval(show, TICK_MS);
  setInterval(sync, SYNC_MS);
  document.addEventListener("visibilitychange", sync);
  const slider = byId("asof-at");
  slider?.addEventListener("input", () => write(byId("asof-text"), clusterTime(Number(slider.value))));
  document.addEventListener("berth:event", (event) => {
    if (event.detail.name === "cluster.updated") sync();
  });
}
