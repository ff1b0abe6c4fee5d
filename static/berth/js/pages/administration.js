/* Account, users and projects. Forms, buttons and selects name their REST call in data-call: "METHOD /path".

   A form sends its named fields, converted by data-type; with data-edits only those that differ from the page as it was
   loaded, so that edits by others stay. data-body has constant fields. data-confirm asks first.
   Afterwards: a response with a password or token shows it once, data-next and data-open open a page ({name} is taken
   from the response), otherwise the lists of the page are refreshed. */
import { call } from "../api.js";
import { byId, element } from "../dom.js";
import { clearProblems, problemLine, showProblems } from "../fields.js";
import { problemText, showProblem, toast, toastProblem } from "../notices.js";
import { refreshRegions } from "../regions.js";

const DAY_MS = 86400000;
const SECRETS = { one_time_password: "One-time password", token: "API token" };
let asked = null; // the button that waits for confirmation

export function start() {
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-call]");
    if (!form) return;
    event.preventDefault();
    submit(form);
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-call]");
    if (button) press(button);
  });
  document.addEventListener("change", (event) => {
    const select = event.target.closest("select[data-call]");
    if (select) choose(select);
  });
  byId("adm-confirm-go")?.addEventListener("click", confirmed);
}

const READ = {
  boolean: (input) => input.checked,
  list: (input) => [...input.selectedOptions].map((option) => option.value),
  optional: (input) => input.value || null,
  days: (input) => (input.value ? new Date(Date.now() + Number(input.value) * DAY_MS).toISOString() : null),
  labels: (input) =>
    Object.fromEntries(
      input.value
        .split("\n")
        .filter((line) => line.trim())
        .map(label),
    ),
};

function label(line) {
  const [name, ...value] = line.split("=");
  return [name.trim(), value.join("=").trim()];
}

const isEdited = (input) => input.value !== input.defaultValue || input.checked !== input.defaultChecked;

function bodyOf(form) {
  const named = [...form.elements].filter((input) => input.name && input.name !== "csrfmiddlewaretoken");
  const inputs = "edits" in form.dataset ? named.filter(isEdited) : named;
  return Object.fromEntries(inputs.map((input) => [input.name, (READ[input.dataset.type] ?? ((i) => i.value))(input)]));
}

function request(owner, body) {
  const [method, path] = owner.dataset.call.split(" ");
  const constant = owner.dataset.body ? JSON.parse(owner.dataset.body) : null;
  return call(method, path, constant || body ? { ...constant, ...body } : null);
}

async function submit(form) {
  const line = form.querySelector(".error[role=alert]");
  clearProblems(form);
  line.hidden = true;
  const unequal = [...form.querySelectorAll("[data-repeats]")].find(
    (input) => input.value !== byId(input.dataset.repeats).value,
  );
  if (unequal) {
    line.textContent = "The two passwords differ.";
    line.hidden = false;
    unequal.focus();
    return;
  }
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  try {
    const { value } = await request(form, bodyOf(form));
    form.closest("dialog")?.close();
    if (form.closest("dialog") || "reset" in form.dataset || form.querySelector("[type=password]")) form.reset();
    await finish(form, value);
  } catch (error) {
    const left = error.problem?.errors ? showProblems(form, error.problem.errors) : null;
    if (left?.length) {
      line.textContent = left.map((problem) => problemLine(form, problem)).join(" ");
      line.hidden = false;
    } else if (!left) showProblem(line, error);
  } finally {
    button.disabled = false;
  }
}

function press(button) {
  if (!button.dataset.confirm) {
    act(button).catch(toastProblem);
    return;
  }
  asked = button;
  byId("adm-confirm-title").textContent = `${button.dataset.verb}?`;
  byId("adm-confirm-text").textContent = button.dataset.confirm;
  byId("adm-confirm-go").textContent = button.dataset.verb;
  byId("adm-confirm-error").hidden = true;
  byId("adm-confirm").showModal();
}

async function confirmed() {
  try {
    await act(asked);
    byId("adm-confirm").close();
  } catch (error) {
    showProblem(byId("adm-confirm-error"), error);
  }
}

async function act(button) {
  const { value } = await request(button, null);
  await finish(button, value);
}

async function choose(select) {
  try {
    const { value } = await request(select, { [select.name]: select.value });
    await finish(select, value);
  } catch (error) {
    select.value = [...select.options].find((option) => option.defaultSelected)?.value ?? select.value;
    if (!error.problem) throw error;
    toast(problemText(error.problem), { tone: "bad", stays: true });
  }
}

async function finish(owner, value) {
  const { next, open, done } = owner.dataset;
  if (next) {
    location.assign(next);
    return;
  }
  if (open) {
    location.assign(open.replace("{name}", encodeURIComponent(value?.name ?? "")));
    return;
  }
  if (value && Object.keys(SECRETS).some((name) => value[name])) showSecrets(value);
  else if (done) toast(done);
  await refreshRegions();
}

/* Passwords and tokens of a response, each with a button that copies it. */
function showSecrets(value) {
  const pairs = Object.entries(SECRETS).filter(([name]) => value[name]);
  byId("adm-secret-list").replaceChildren(
    ...pairs.flatMap(([name, title]) => {
      const detail = element("dd");
      const code = element("code", value[name], "", { id: `adm-${name}` });
      const copy = element("button", "Copy", "btn small", {
        type: "button",
        "data-act": "copy",
        "data-from": code.id,
        "aria-label": `Copy the ${title}`,
      });
      detail.append(code, copy);
      return [element("dt", title), detail];
    }),
  );
  byId("adm-confirm").close();
  byId("adm-secret").showModal();
}
