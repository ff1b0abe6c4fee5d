/* Every page: menus, theme, search, shortcuts, live data and charts. A page loads its own module by data-page. */
import { firstCharts, redrawCharts, refreshCharts, startCharts } from "./charts.js";
import { startLive, togglePause } from "./live.js";
import { toast } from "./notices.js";
import { refreshRegions } from "./regions.js";
import { startSearch } from "./search.js";

const root = document.documentElement;
const page = document.body.dataset.page || "";
const SHORTCUTS = {
  o: "/",
  s: "/submit/",
  j: "/jobs/",
  m: "/map/",
  a: "/applications/",
  c: "/classification/",
  b: "/calibrate/",
  d: "/decisions/",
  p: "/plans/",
  y: "/system/",
};
const MAX_WAIT_MS = 3000; // of live updates for the first charts: the page is as new as its charts
let chordAt = 0; // when g was pressed

const pause = (ms) =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

function switchTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("berth-theme", root.dataset.theme);
  } catch {
    /* no storage: the choice lasts for this page */
  }
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

function menuOf(button) {
  return button.parentNode.querySelector(".menu");
}

function toggleMenu(button) {
  const open = button.getAttribute("aria-expanded") !== "true";
  closeMenus(button);
  button.setAttribute("aria-expanded", String(open));
  const menu = menuOf(button);
  menu.hidden = !open;
  if (open) menu.querySelector("a, button")?.focus();
}

async function copy(text, notice) {
  await navigator.clipboard.writeText(text);
  toast(notice);
}

const ACTIONS = {
  theme: switchTheme,
  pause: togglePause,
  menu: toggleMenu,
  keys: () => {
    closeMenus();
    document.getElementById("keys").showModal();
  },
  search: () => {
    document.body.toggleAttribute("data-searching");
    document.getElementById("q").focus();
  },
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

function isTyping(target) {
  return target.closest("input, textarea, select, [contenteditable]");
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const open = document.querySelector("[data-act=menu][aria-expanded=true]");
    if (open) {
      closeMenus();
      open.focus();
    }
    return;
  }
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    isTyping(event.target) ||
    document.querySelector("dialog[open]")
  )
    return;
  if (Date.now() - chordAt < 1200) {
    chordAt = 0;
    if (SHORTCUTS[event.key]) {
      event.preventDefault();
      location.href = SHORTCUTS[event.key];
    }
    return;
  }
  if (event.key === "g") chordAt = Date.now();
  else if (event.key === "/") {
    event.preventDefault();
    document.getElementById("q")?.focus();
  } else if (event.key === "?") ACTIONS.keys();
  else if (event.key === "t") switchTheme();
  else if (event.key === "p") togglePause();
});

for (const item of document.querySelectorAll("#keys [data-for]")) item.hidden = item.dataset.for !== page;

/* Centre the current tab if the tabs do not fit. */
for (const current of document.querySelectorAll(".tabs [aria-current=page]")) {
  const tabs = current.parentNode;
  const [tab, all] = [current.getBoundingClientRect(), tabs.getBoundingClientRect()];
  tabs.scrollLeft += tab.left - all.left - (all.width - tab.width) / 2;
}

document.addEventListener(
  "toggle",
  (event) => {
    if (event.target.matches?.("details")) refreshCharts();
  },
  true,
);

const PAGES = {
  account: "./pages/administration.js",
  password: "./pages/administration.js",
  user: "./pages/administration.js",
  users: "./pages/administration.js",
  project: "./pages/administration.js",
  projects: "./pages/administration.js",
  application: "./pages/application.js",
  calibrate: "./pages/calibrate.js",
  classification: "./pages/classification.js",
  decision: "./pages/decision.js",
  jobs: "./pages/jobs.js",
  job: "./pages/job.js",
  map: "./pages/map.js",
  comparison: "./pages/comparison.js",
  lab: "./pages/lab.js",
  pairs: "./pages/pairs.js",
  plan: "./pages/plan.js",
  plans: "./pages/plans.js",
  policies: "./pages/policies.js",
  queues: "./pages/queues.js",
  sampling: "./pages/sampling.js",
  server: "./pages/server.js",
  shadow: "./pages/shadows.js",
  shadows: "./pages/shadows.js",
  submit: "./pages/submit.js",
};

if (!("signedOut" in document.body.dataset)) {
  startSearch();
  if (document.querySelector(".term, template[id^=term-]")) import("./terms.js").then((module) => module.startTerms());
  startCharts();
  document.addEventListener("berth:patched", startCharts);
  Promise.race([firstCharts, pause(MAX_WAIT_MS)]).then(() =>
    startLive(async () => {
      await Promise.all([refreshRegions(), refreshCharts()]);
    }),
  );
  import("./clock.js").then((module) => module.startClock());
  if (PAGES[page]) import(PAGES[page]).then((module) => module.start());
}
