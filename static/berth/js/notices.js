/* Short notices at the lower right, and texts of problem documents. */
import { ApiError } from "./api.js";
import { element, icon } from "./dom.js";

const VISIBLE_MS = 6000;
const host = document.getElementById("toasts");

/* Show a notice for a few seconds, or until it is closed if it `stays`. */
export function toast(text, { tone = "ok", link = null, stays = false } = {}) {
  const box = element("div", "", "toast");
  const words = element("span", text);
  if (link) words.append(" ", element("a", link.text, "", { href: link.href }));
  const close = element("button", "", "btn quiet small icon", { type: "button", "aria-label": "Close" });
  close.append(icon("x"));
  close.addEventListener("click", () => box.remove());
  box.append(icon(tone === "ok" ? "check" : "trib", `ic ${tone}`), words, close);
  host.append(box);
  if (!stays) setTimeout(() => box.remove(), VISIBLE_MS);
}

/* A problem document as one sentence with its request id. */
export function problemText(problem) {
  const text = [problem.title, withFieldNames(problem)].filter(Boolean).join(": ");
  return problem.request_id ? `${text} (request ${problem.request_id})` : text;
}

/* The detail, with the names of the fields in place of their JSON Pointers. */
function withFieldNames({ detail = "", errors = [] }) {
  return errors.reduce((text, { pointer }) => {
    const name = pointer
      .split("/")
      .filter((part) => part && !/^\d+$/.test(part))
      .at(-1);
    return name ? text.replace(`${pointer}: `, `${name.replaceAll("_", " ")}: `) : text.replace(/^\/: /, "");
  }, detail);
}

/* The text of an API error with the problems of its fields, each once: with a single problem, the
   detail repeats it. */
export function fullProblemText(problem) {
  const fields = (problem.errors ?? []).map(({ detail }) => detail);
  const missing = fields.filter((text) => !problem.detail?.includes(text));
  return [problemText(problem), ...missing].join("; ");
}

/* Show an API error as a notice; rethrow any other error. */
export function toastProblem(error) {
  if (!(error instanceof ApiError)) throw error;
  toast(problemText(error.problem), { tone: "bad", stays: true });
}

/* Show an API error in an element of the page; rethrow any other error. */
export function showProblem(line, error) {
  if (!(error instanceof ApiError)) throw error;
  line.textContent = problemText(error.problem);
  line.hidden = false;
}
