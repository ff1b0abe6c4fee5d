/* Announcements for screen readers: at most one every two seconds, the latest wins. */
import { byId } from "../dom.js";

const EVERY_MS = 2000;
let lastAt = 0;
let timer = 0;

export function announce(text) {
  clearTimeout(timer);
  const wait = Math.max(0, lastAt + EVERY_MS - Date.now());
  timer = setTimeout(() => {
    lastAt = Date.now();
    byId("cal-said").textContent = text;
  }, wait);
}
