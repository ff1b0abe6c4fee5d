/* The form of a job and the document it stands for. */
export const form = document.getElementById("submit-form");
const SERVICES = ["throughput_latency", "ips"]; // kinds of target of jobs that run for a given time
const WITH_TASKS = ["completion_time", "best_effort"];
const USUAL_KINDS = { latency_critical: "throughput_latency", single_node: "ips", analytics: "completion_time" };
const TARGET_FIELDS = {
  seconds: "seconds",
  qps: "qps",
  latency_seconds: "latency_ms",
  percentile: "percentile",
  ips: "ips",
};

let carried = { metadata: {}, spec: {}, constraints: {} }; // of the job to submit again; fields of the form replace it

/* The kind of target that jobs of a kind of application usually have. */
export const usualTargetKind = (applicationKind) => USUAL_KINDS[applicationKind];

/* Show only the fields of the kind of target. */
export function showFieldsOfKind() {
  for (const field of form.querySelectorAll("[data-kind]"))
    field.hidden = !field.dataset.kind.split(" ").includes(form.kind.value);
}

const scaleOf = (name) => Number(form[name].dataset.scale ?? 1);

/* The number in a field in the unit of the API; undefined if it is empty, its text if it is not a number. */
function numberIn(name) {
  const text = form[name].value.trim();
  if (!text) return undefined;
  const value = Number(text);
  return Number.isNaN(value) ? text : Number((value * scaleOf(name)).toPrecision(15));
}

const withoutEmpty = (object) =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== ""));

const nonEmpty = (object) => (Object.keys(object).length ? object : undefined);

function targetSpec() {
  const kind = form.kind.value;
  if (kind === "completion_time") return { kind, seconds: numberIn("seconds") };
  if (kind === "throughput_latency")
    return {
      kind,
      qps: numberIn("qps"),
      latency_seconds: numberIn("latency_ms"),
      percentile: numberIn("percentile"),
    };
  if (kind === "ips") return { kind, ips: numberIn("ips") };
  return { kind };
}

const LABEL = /(?=\S)([^\s=]*)(?:=("(?:[^"\\]|\\.)*"(?!\S)|\S*))?/g;

/* 'a=1 b="2 3" c' as { a: "1", b: "2 3", c: "" }. */
export const parseLabels = (text) =>
  Object.fromEntries([...text.matchAll(LABEL)].map(([, name, value = ""]) => [name, unquoted(value)]));

const unquoted = (value) => (/^".*"$/.test(value) ? value.slice(1, -1).replace(/\\(.)/g, "$1") : value);

/* The text that `parseLabels` reads as these labels. */
export const labelText = (labels) =>
  Object.entries(labels)
    .map(([name, value]) => `${name}=${/\s|^"/.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : value}`)
    .join(" ");

function constraints() {
  const platforms = [...form.platforms.selectedOptions].map((option) => option.value);
  const excluded = form.excluded.value.split(/[\s,]+/).filter(Boolean);
  return withoutEmpty({
    ...carried.constraints,
    platforms: platforms.length ? platforms : undefined,
    locality: form.locality.value,
    spread: form.spread.value,
    max_cost: numberIn("max_cost"),
    excluded: excluded.length ? excluded : undefined,
  });
}

function inputBytes() {
  const input = numberIn("input_gb");
  return typeof input === "number" ? Math.round(input) : input;
}

/* The input and the tasks of the job in the form; empty fields have the values of the API. */
export const workInForm = () => ({ bytes: inputBytes() ?? 0, tasks: numberIn("tasks") ?? 1 });

/* The top share as a rank threshold: the top 20 % are the ranks from 0.8. */
function guarantee() {
  const top = numberIn("top_percent");
  const probability = numberIn("miss_percent");
  const threshold = typeof top === "number" ? Number((1 - top / 100).toPrecision(12)) : top;
  return nonEmpty(withoutEmpty({ rank_threshold: threshold, probability }));
}

/* The members of the job array; undefined for a single job. A limit without indexes is a problem to report. */
function array() {
  return nonEmpty(withoutEmpty({ indexes: form.indexes.value.trim(), limit: numberIn("array_limit") }));
}

/* The body of the request that the form describes. */
export function formDocument() {
  const kind = form.kind.value;
  return withoutEmpty({
    array: array(),
    metadata: withoutEmpty({
      ...carried.metadata,
      name: form.elements.name.value.trim(),
      project: form.project.value,
      labels: nonEmpty(parseLabels(form.labels.value)),
    }),
    spec: withoutEmpty({
      ...carried.spec,
      application: form.application.value.trim(),
      target: withoutEmpty(targetSpec()),
      input_bytes: kind === "throughput_latency" ? undefined : inputBytes(),
      tasks: WITH_TASKS.includes(kind) ? numberIn("tasks") : undefined,
      duration_seconds: SERVICES.includes(kind) ? numberIn("duration_seconds") : undefined,
      units: numberIn("units"),
      priority: numberIn("priority") || undefined,
      policy: form.policy.value,
      sample_size: numberIn("sample_size"),
      guarantee: guarantee(),
      gang: form.gang.value ? form.gang.value === "true" : undefined,
      held: form.held.checked || undefined,
      constraints: nonEmpty(constraints()),
    }),
  });
}

/* Put the work of a usual job into the fields that `follows` selects. */
export function fillWork({ input_bytes: bytes, tasks, duration_seconds: seconds, units }, follows) {
  const texts = {
    input_gb: bytes ? String(Number((bytes / scaleOf("input_gb")).toPrecision(12))) : form.input_gb.value,
    tasks: String(tasks),
    duration_seconds: seconds === null ? "" : String(seconds),
    units: units === null ? "" : String(units),
  };
  for (const [name, text] of Object.entries(texts)) if (follows(name)) form[name].value = text;
}

/* Put a target into the form: its kind, and the fields that `follows` selects. */
export function fillTarget(target, follows = () => true) {
  if (target.kind && follows("kind")) form.kind.value = target.kind;
  if (target.kind && form.kind.value !== target.kind) return;
  for (const [name, value] of Object.entries(target)) {
    const field = TARGET_FIELDS[name];
    if (field && follows(field)) form[field].value = String(Number((value / scaleOf(field)).toPrecision(12)));
  }
}

/* Put a document into the form; what it has no field for is submitted unchanged. */
export function fillDocument({ metadata, spec }) {
  const { constraints: given = {}, target, application } = spec;
  const { project, labels = {} } = metadata;
  carried = { metadata, spec, constraints: { ...given, labels: nonEmpty(given.labels ?? {}) } };
  form.application.value = application;
  fillTarget(target);
  const all = () => true;
  form.input_gb.value = ""; // of a job without input, which `fillWork` leaves as it is
  fillWork({ tasks: 1, input_bytes: 0, duration_seconds: null, units: null, ...spec }, all);
  form.priority.value = String(spec.priority ?? 0);
  form.gang.value = spec.gang === undefined ? "" : String(spec.gang);
  form.policy.value = spec.policy ?? "";
  form.sample_size.value = spec.sample_size ?? "";
  const { rank_threshold: threshold, probability } = spec.guarantee ?? {};
  form.top_percent.value = threshold === undefined ? "" : String(Number((100 * (1 - threshold)).toPrecision(12)));
  form.miss_percent.value = probability === undefined ? "" : String(Number((100 * probability).toPrecision(12)));
  form.locality.value = given.locality ?? "";
  form.spread.value = given.spread ?? "";
  form.max_cost.value = given.max_cost ?? "";
  form.excluded.value = (given.excluded ?? []).join(" ");
  for (const option of form.platforms.options) option.selected = (given.platforms ?? []).includes(option.value);
  if ([...form.project.options].some(({ value }) => value === project)) form.project.value = project;
  form.labels.value = labelText(labels);
  form.querySelector("details").open = true;
}

/* A job's document, with or without metadata, with another target. */
export const withTarget = (job, target) => (job.spec ? { ...job, spec: { ...job.spec, target } } : { ...job, target });
