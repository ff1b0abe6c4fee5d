/* Lab: estimate and start a comparison. */
import { call } from "../api.js";
import { debounce } from "../dom.js";
import { problemText } from "../notices.js";

const SAMPLE_JOBS = { history: 1000 }; // a history is counted when it is copied
const OFFERED_NAME = /^Last [\d.]* h$/; // as long as it was not edited
const estimateLater = debounce(estimate, 300);

export function start() {
  const form = document.getElementById("lab-form");
  form.addEventListener("input", () => {
    showFields(form);
    estimateLater(form);
  });
  form.elements.hours.addEventListener("input", ({ target }) => {
    const { name } = form.elements;
    if (OFFERED_NAME.test(name.value)) name.value = `Last ${target.value} h`;
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
  if (Number(form.elements.failures.value) > 0) chosen.push("failures");
  for (const field of form.querySelectorAll("[data-for]")) field.hidden = !chosen.includes(field.dataset.for);
}

/* Settings at each load; their names say the load unless it is 1. */
function settingsOf(form) {
  const { settings, baseline, bound } = settingsAtOne(form);
  const loads = loadsOf(form);
  const named = (name, load) => (load === 1 || name === null || name === "" ? name : `${name}, load ×${load}`);
  const first = loads.includes(1) ? 1 : loads[0];
  return {
    loads,
    settings: loads.flatMap((load) =>
      settings.map(({ name, options }) => ({
        name: named(name, load),
        options: load === 1 ? options : { ...options, arrival_scale: load },
      })),
    ),
    baseline: named(baseline, first),
    bound: named(bound, first),
  };
}

/* The arrival rates in the form; empty if one is not a number from 0.1 to 10. */
function loadsOf(form) {
  const loads = numbersIn(form.elements.loads);
  return loads.every((load) => load >= 0.1 && load <= 10) ? loads : [];
}

function settingsAtOne(form) {
  const policies = [...form.querySelectorAll("[name=policy]:checked")].map((box) => box.value);
  const settings = policies.map((policy) => ({ name: policy, options: { policy } }));
  const baseline = baselineOf(form, policies);
  const bound = form.elements.bound.checked && baseline ? `${baseline}, true profiles` : null;
  if (bound) settings.push({ name: bound, options: { policy: baseline, profiles: "true" } });
  for (const { policy, values } of parametersOf(form)) {
    const texts = values.map(([name, value]) => `${name} ${value}`);
    settings.push({
      name: `${policy}, ${texts.join(", ")}`,
      options: { policy, parameters: Object.fromEntries(values) },
    });
  }
  if (form.elements.unprofiled.checked && baseline) {
    settings.push({ name: `${baseline}, no profiling`, options: { policy: baseline, profiles: "none" } });
  }
  for (const { value, dataset } of baseline ? form.querySelectorAll("[name=weights]:checked") : []) {
    const weights = JSON.parse(dataset.weights);
    settings.push({ name: `${baseline}, weights ${value}`, options: { policy: baseline, weights } });
  }
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

/* Every combination of the parameters of each policy but its own; each has those that differ. */
function parametersOf(form) {
  const grids = new Map();
  for (const input of form.querySelectorAll("[data-parameter]")) {
    const { policy, parameter } = input.dataset;
    const own = Number(input.dataset.default);
    const given = numbersIn(input);
    const before = grids.get(policy) ?? [[]];
    const after = (given.length ? given : [own]).flatMap((value) =>
      before.map((values) => (value === own ? values : [...values, [parameter, value]])),
    );
    grids.set(policy, after);
  }
  const all = [...grids].flatMap(([policy, grid]) => grid.map((values) => ({ policy, values })));
  return all.filter(({ values }) => values.length);
}

const numbersIn = (input) => [
  ...new Set(
    input.value
      .split(/[,;\s]+/)
      .filter(Boolean)
      .map(Number),
  ),
];

/* The policy in use if it takes part, else the first one. */
function baselineOf(form, policies) {
  const inUse = form.querySelector("[name=policy]:has(+ span .t3)")?.value;
  return policies.includes(inUse) ? inUse : (policies[0] ?? "");
}

async function estimate(form) {
  const { settings, loads } = settingsOf(form);
  const output = document.getElementById("lab-estimate");
  const seeds = Number(form.elements.seeds.value);
  const { kind, jobs, servers } = sizeOf(form);
  const isSweep = form.elements.halving.checked;
  const fault = faultOf(settings.length, loads.length, isSweep);
  if (fault || !(seeds >= 1) || !(servers >= 1) || !(jobs >= 1)) {
    output.textContent = fault;
    return;
  }
  const body = { jobs, servers, settings: settings.length, seeds };
  try {
    const { value } = await call("POST", "/api/v1/comparisons/estimate/", body);
    const time = value.seconds < 90 ? `${Math.round(value.seconds)} s` : `${Math.round(value.seconds / 60)} min`;
    const memory = `${Math.round(value.memory_bytes / 2 ** 20)} MB`;
    const scale = kind in SAMPLE_JOBS ? " for each 1,000 jobs" : "";
    const most = isSweep ? "At most " : "";
    output.textContent = `${most}${value.runs} runs, about ${time} on one core${scale}, ${memory}`;
  } catch {
    output.textContent = "";
  }
}

function faultOf(settings, loads, isSweep) {
  if (isSweep && loads > 1) return "A sweep that drops settings needs one arrival rate.";
  if (!loads) return "Arrival rates must be numbers from 0.1 to 10, separated by commas.";
  if (!isSweep && settings > 8 * loads) return "At most 8 settings, with the bound and the setting with fewer servers.";
  return settings > 32 ? "At most 32 settings over all arrival rates." : "";
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
    const halving = form.elements.halving.checked ? { first_seeds: Math.min(3, seeds.length) } : null;
    const body = { name, scenario, settings, seeds, baseline, bound, halving };
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
  const { cluster, servers, workload, hours, jobs, world, failures, repair } = form.elements;
  const perDay = Number(failures.value);
  const isSynthetic = cluster.value === "synthetic";
  const isHistory = workload.value === "history";
  return {
    cluster: isSynthetic ? { kind: "synthetic", servers: Number(servers.value) } : { kind: "now" },
    workload: isHistory
      ? { kind: "history", hours: Number(hours.value) }
      : { kind: "facebook", jobs: Number(jobs.value) },
    world: world.value,
    failures: perDay > 0 ? { per_day: perDay, repair_s: 3600 * Number(repair.value) } : null,
  };
}
