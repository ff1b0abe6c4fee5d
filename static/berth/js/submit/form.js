/* The form of a job and the document it stands for. */
export const form = document.getElementById("submit-form");
const SERVICES = ["throughput_latency", "ips"]; // kinds of target of jobs that run for a given time
const WITH_TASKS = ["completion_time", "best_effort"];
const USUAL_KINDS = { latency_critical: "throughput_latency", single_node: "ips", analytics: "completion_time" };
const BYTES_PER_GB = 1e9;
const TARGET_FIELDS = {
  seconds: ["seconds", 1],
  qps: ["qps", 1],
  latency_seconds: ["latency_ms", 1000],
  percentile: ["percentile", 1],
  ips: ["ips", 1],
};

/* The kind of target that jobs of a kind of application usually have. */
export const usualTargetKind = (applicationKind) => USUAL_KINDS[applicationKind];

/* Show only the fields of the kind of target. */
export function showFieldsOfKind() {
  for (const field of form.querySelectorAll("[data-kind]"))
    field.hidden = !field.dataset.kind.split(" ").includes(form.kind.value);
}

/* The number in a field; undefined if it is empty, its text if it is not a number. */
function numberIn(name, scale = 1) {
  const text = form[name].value.trim();
  if (!text) return undefined;
  const value = Number(text);
  return Number.isNaN(value) ? text : value * scale;
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
      latency_seconds: numberIn("latency_ms", 0.001),
      percentile: numberIn("percentile"),
    };
  if (kind === "ips") return { kind, ips: numberIn("ips") };
  return { kind };
}

/* "a=1 b" as { a: "1", b: "" }. */
export function parseLabels(text) {
  const words = text.split(/\s+/).filter(Boolean);
  return Object.fromEntries(words.map((word) => word.split("=", 2)).map(([name, value]) => [name, value ?? ""]));
}

function constraints() {
  const platforms = [...form.platforms.selectedOptions].map((option) => option.value);
  return withoutEmpty({
    platforms: platforms.length ? platforms : undefined,
    locality: form.locality.value,
    spread: form.spread.value,
  });
}

function inputBytes() {
  const input = numberIn("input_gb", BYTES_PER_GB);
  return typeof input === "number" ? Math.round(input) : input;
}

/* The body of the request that the form describes. */
export function formDocument() {
  const kind = form.kind.value;
  return {
    metadata: withoutEmpty({
      name: form.elements.name.value.trim(),
      project: form.project.value,
      labels: nonEmpty(parseLabels(form.labels.value)),
    }),
    spec: withoutEmpty({
      application: form.application.value.trim(),
      target: withoutEmpty(targetSpec()),
      input_bytes: kind === "throughput_latency" ? undefined : inputBytes(),
      tasks: WITH_TASKS.includes(kind) ? numberIn("tasks") : undefined,
      duration_seconds: SERVICES.includes(kind) ? numberIn("duration_seconds") : undefined,
      units: numberIn("units"),
      priority: numberIn("priority") || undefined,
      gang: form.gang.checked,
      held: form.held.checked || undefined,
      constraints: nonEmpty(constraints()),
    }),
  };
}

/* Put a suggested target into the fields. */
export function fillTarget(target) {
  for (const [name, value] of Object.entries(target)) {
    if (!TARGET_FIELDS[name]) continue;
    const [field, scale] = TARGET_FIELDS[name];
    form[field].value = String(value * scale);
  }
}
