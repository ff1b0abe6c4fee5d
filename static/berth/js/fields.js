/* Validation errors at the fields of a form.

   A field has its JSON Pointer in data-pointer. data-scale converts what the user types into the unit of the API:
   0.001 for milliseconds of a value in seconds. data-range names the accepted values of a field that is converted in
   another way. */
const ABOUT_A_NUMBER = ["too_low", "too_high", "out_of_range"];
const PARTS = ["", "/", "/metadata", "/spec"]; // of a document, whose errors belong to no field

export function clearProblems(form) {
  for (const input of form.querySelectorAll("[aria-invalid=true]")) clearProblem(input);
}

function clearProblem(input) {
  input.removeAttribute("aria-invalid");
  describe(input, input.dataset.hint ?? "");
  document.getElementById(`${input.id}-error`)?.remove();
}

function describe(input, ids) {
  if (ids) input.setAttribute("aria-describedby", ids);
  else input.removeAttribute("aria-describedby");
}

/* Mark the fields with errors, show them and focus the first. The mark of a field goes when the field is edited.
   Returns the errors without a field. */
export function showProblems(form, errors) {
  const unplaced = [];
  for (const error of errors ?? []) {
    const input = fieldOf(form, error);
    if (!input) unplaced.push(error);
    else if (!document.getElementById(`${input.id}-error`)) mark(input, error);
  }
  form.querySelector("[aria-invalid=true]")?.focus();
  return unplaced;
}

/* The field of an error: its own, that of the object that it is in, or the first one of the object that it is about. */
function fieldOf(form, { pointer }) {
  const fields = [...form.querySelectorAll("[data-pointer]")];
  return (
    fields.find(({ dataset }) => pointer === dataset.pointer || pointer.startsWith(`${dataset.pointer}/`)) ??
    fields.find(({ dataset }) => !PARTS.includes(pointer) && dataset.pointer.startsWith(`${pointer}/`))
  );
}

function mark(input, error) {
  input.closest("details")?.setAttribute("open", "");
  const line = document.createElement("span");
  line.className = "error";
  line.id = `${input.id}-error`;
  line.textContent = capitalised(messageAt(input, error));
  (input.closest(".field") ?? input.closest(".chk-row") ?? input.parentNode).append(line);
  input.dataset.hint ??= input.getAttribute("aria-describedby") ?? "";
  describe(input, [input.dataset.hint, line.id].filter(Boolean).join(" "));
  input.setAttribute("aria-invalid", "true");
  input.addEventListener("input", () => clearProblem(input), { once: true });
}

/* The error in the words of the form: the numbers in the unit of the field. */
function messageAt(input, { code, detail, suggestion }) {
  if (code === "required") return "a value is required";
  const scale = Number(input.dataset.scale ?? 1);
  const isAboutNumber = ABOUT_A_NUMBER.includes(code);
  if (isAboutNumber && input.dataset.range) return `must be ${input.dataset.range}, not ${input.value}`;
  const text = scale === 1 ? detail.replace("must be null", "must be empty") : scaled(detail, scale, isAboutNumber);
  if (suggestion === undefined) return text;
  return `${text} Nearest valid value: ${scale === 1 ? suggestion : inUnit(suggestion, scale)}.`;
}

/* Text about a number in the unit of a field, in which whole numbers of the API may have decimals. */
const scaled = (text, scale, isAboutNumber) =>
  isAboutNumber
    ? text.replace(/-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi, (number) => inUnit(number, scale))
    : text.replace("a whole number", "a number");

const inUnit = (number, scale) => String(Number((Number(number) / scale).toPrecision(12)));

const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/* An error as a line outside of its field: the label of the field, or the path in the document, and the error. */
export function problemLine(form, error) {
  const input = fieldOf(form, error);
  if (input) return `${labelOf(input)}: ${messageAt(input, error)}`;
  const path = pathOf(error.pointer);
  return path ? `${path}: ${error.detail}` : error.detail;
}

/* The label of a field, without a colon or the text of the fields inside it. */
function labelOf(input) {
  const label = input.labels?.[0];
  const text = label
    ? [...label.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE || node.tagName === "SPAN")
    : [];
  const words = text
    .map((node) => node.textContent)
    .join(" ")
    .replace(/\s+/g, " ")
    .trim();
  return words || input.getAttribute("aria-label") || input.name;
}

/* A JSON Pointer (RFC 6901) as the names on its way: "/spec/a~1b/0" is "spec, a/b, 1". */
const pathOf = (pointer) =>
  pointer
    .split("/")
    .slice(1)
    .map((name) => (/^\d+$/.test(name) ? String(Number(name) + 1) : name.replaceAll("~1", "/").replaceAll("~0", "~")))
    .join(", ");
