/* Lab: estimate and start a comparison. */
import { call } from "../api.js";
import { debounce } from "../dom.js";
import { problemText } from "../notices.js";

const SAMPLE_JOBS = { history: 1000 }; // a history is counted when it is copied
const estimateLater = debounce(estimate, 300);

export function start() {
  const form = document.getElementById("lab-form");
  form.addEventListener("input", () => {
    showFields(form);
    estimateLater(form);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    begin(form);
  });
  showFields(form);
  estimate(form);
}

/* Show the fields of the chosen cluster and jobs. */
function showFields(form) {
  const chosen = [form.elements.cluster.value, form.elements.workload.value];
  for (const field of form.querySelectorAll("[data-for]")) field.hidden = !chosen.includes(field.dataset.for);
}

function settingsOf(form) {
  const policies = [...form.querySelectorAll("[name=policy]:checked")].map((box) => box.value);
  const settings = policies.map((policy) => ({ name: policy, options: { policy } }));
  const baseline = baselineOf(form, policies);
  const bound = form.elements.bound.checked && baseline ? `${baseline}, true profiles` : null;
  if (bound) settings.push({ name: bound, options: { policy: baseline, profiles: "true" } });
  const fewer = Number(form.elements.fewer.value);
  if (fewer > 0 && baseline) {
    const share = (100 - fewer) / 100;
    settings.push({
      name: `${baseline}, ${fewer} % fewer servers`,
      options: { policy: baseline, servers_share: share },
    });
  }
  return { settings, baseline, bound };
}

/* The policy in use if it takes part, else the first one. */
function baselineOf(form, policies) {
  const inUse = form.querySelector("[name=policy]:has(+ span .t3)")?.value;
  return policies.includes(inUse) ? inUse : (policies[0] ?? "");
}

async function estimate(form) {
  const { settings } = settingsOf(form);
  const output = document.getElementById("lab-estimate");
  const seeds = Number(form.elements.seeds.value);
  const { kind, jobs, servers } = sizeOf(form);
  if (!settings.length || settings.length > 8 || !(seeds >= 1) || !(servers >= 1) || !(jobs >= 1)) {
    output.textContent =
      settings.length > 8 ? "At most 8 settings, with the bound and the setting with fewer servers." : "";
    return;
  }
  const body = { jobs, servers, settings: settings.length, seeds };
  try {
    const { value } = await call("POST", "/api/v1/comparisons/estimate/", body);
    const time = value.seconds < 90 ? `${Math.round(value.seconds)} s` : `${Math.round(value.seconds / 60)} min`;
    const memory = `${Math.round(value.memory_bytes / 2 ** 20)} MB`;
    const scale = kind in SAMPLE_JOBS ? " for each 1,000 jobs" : "";
    output.textContent = `${value.runs} runs, about ${time} on one core${scale}, ${memory}`;
  } catch {
    output.textContent = "";
  }
}

function sizeOf(form) {
  const { scenario, cluster, servers, workload, jobs } = form.elements;
  if (scenario) {
    return { kind: "stored", jobs: Number(scenario.dataset.jobs), servers: Number(scenario.dataset.servers) };
  }
  return {
    kind: workload.value,
    jobs: SAMPLE_JOBS[workload.value] ?? Number(jobs.value),
    servers: Number(cluster.value === "now" ? form.dataset.servers : servers.value),
  };
}

async function begin(form) {
  const { settings, baseline, bound } = settingsOf(form);
  const error = document.getElementById("lab-error");
  const button = form.querySelector("[type=submit]");
  error.hidden = true;
  button.disabled = true;
  const name = form.elements.name.value;
  const seeds = Array.from({ length: Number(form.elements.seeds.value) }, (_, i) => i + 1);
  try {
    const scenario = form.elements.scenario?.value ?? (await newScenario(name, form));
    const body = { name, scenario, settings, seeds, baseline, bound };
    const { value } = await call("POST", "/api/v1/comparisons/", body);
    location.assign(`/lab/${value.id}/`);
  } catch (problem) {
    error.textContent = problem.problem ? problemText(problem.problem) : problem.message;
    error.hidden = false;
    button.disabled = false;
  }
}

async function newScenario(name, form) {
  return (await call("POST", "/api/v1/scenarios/", { name, ...sourceOf(form) })).value.id;
}

function sourceOf(form) {
  const { cluster, servers, workload, hours, jobs, world } = form.elements;
  const isSynthetic = cluster.value === "synthetic";
  const isHistory = workload.value === "history";
  return {
    cluster: isSynthetic ? { kind: "synthetic", servers: Number(servers.value) } : { kind: "now" },
    workload: isHistory
      ? { kind: "history", hours: Number(hours.value) }
      : { kind: "facebook", jobs: Number(jobs.value) },
    world: world.value,
  };
}
