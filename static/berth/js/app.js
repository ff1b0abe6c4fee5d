/* The shell: menus, theme, search, keys, live data, charts. Pages add their own module by data-page. */
import { startCharts, redrawCharts, refreshCharts } from "./charts.js";
import { startLive, togglePause } from "./live.js";
import { refreshRegions } from "./regions.js";
import { startSearch } from "./search.js";
import { toast } from "./notices.js";

const root = document.documentElement;
const page = document.body.dataset.page || "";
const SHORTCUTS = { o: "/", s: "/submit/", j: "/jobs/", m: "/map/", a: "/applications/", c: "/classification/", b: "/calibrate/", d: "/decisions/", p: "/plans/", y: "/system/" };
let chord = 0;

function switchTheme() {
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("berth-theme", root.dataset.theme); } catch { /* storage is off: this page only */ }
  redrawCharts();
  document.dispatchEvent(new CustomEvent("berth:theme"));
}

function closeMenus(except) {
  for (const button of document.querySelectorAll("[data-act=menu][aria-expanded=true]")) {
    if (button === except) continue;
    button.setAttribute("aria-expanded", "false");
    menuOf(button).hidden = true;
  }
}

function menuOf(button) { return button.parentNode.querySelector(".menu"); }

function toggleMenu(button) {
  const open = button.getAttribute("aria-expanded") !== "true";
  closeMenus(button);
  button.setAttribute("aria-expanded", String(open));
  const menu = menuOf(button);
  menu.hidden = !open;
  if (open) menu.querySelector("a, button")?.focus();
}

async function copy(text, said) {
  await navigator.clipboard.writeText(text);
  toast(said);
}

const ACTIONS = {
  theme: switchTheme,
  pause: togglePause,
  menu: toggleMenu,
  keys: () => { closeMenus(); document.getElementById("keys").showModal(); },
  "copy-link": () => copy(location.href, "Link copied."),
  copy: (button) => copy(button.dataset.text ?? document.getElementById(button.dataset.from).textContent, "Copied."),
  dialog: (button) => document.getElementById(button.dataset.dialog).showModal(),
  "close-dialog": (button) => button.closest("dialog").close(),
  reload: () => location.reload(),
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (button && ACTIONS[button.dataset.act]) ACTIONS[button.dataset.act](button);
  if (!event.target.closest(".menu-host")) closeMenus();
});

function typing(target) { return target.closest("input, textarea, select, [contenteditable]"); }

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const open = document.querySelector("[data-act=menu][aria-expanded=true]");
    if (open) { closeMenus(); open.focus(); }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
  if (Date.now() - chord < 1200) {
    chord = 0;
    if (SHORTCUTS[event.key]) { event.preventDefault(); location.href = SHORTCUTS[event.key]; }
    return;
  }
  if (event.key === "g") chord = Date.now();
  else if (event.key === "/") { event.preventDefault(); document.getElementById("q")?.focus(); }
  else if (event.key === "?") ACTIONS.keys();
  else if (event.key === "t") switchTheme();
  else if (event.key === "p") togglePause();
});

for (const item of document.querySelectorAll("#keys [data-for]")) item.hidden = item.dataset.for !== page;

/* Where the tabs do not fit, the one chosen is in the middle. */
for (const chosen of document.querySelectorAll(".tabs [aria-current=page]")) {
  const tabs = chosen.parentNode;
  const [mine, all] = [chosen.getBoundingClientRect(), tabs.getBoundingClientRect()];
  tabs.scrollLeft += mine.left - all.left - (all.width - mine.width) / 2;
}

document.addEventListener("toggle", (event) => {
  if (event.target.matches?.("details")) refreshCharts();
}, true);

const PAGES = { application: "./pages/application.js", calibrate: "./pages/calibrate.js", classification: "./pages/classification.js", jobs: "./pages/jobs.js", job: "./pages/job.js", map: "./pages/map.js", plan: "./pages/plan.js", plans: "./pages/plans.js", server: "./pages/server.js", submit: "./pages/submit.js" };

if (!("signedOut" in document.body.dataset)) {
  startSearch();
  startCharts();
  startLive(async () => { await Promise.all([refreshRegions(), refreshCharts()]); });
  if (PAGES[page]) import(PAGES[page]).then((module) => module.start());
}
