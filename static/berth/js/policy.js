/* Apply a policy to the cluster, unless somebody has changed it since the page was loaded. */
import { call } from "./api.js";
import { problemText, toast } from "./notices.js";
import { refreshRegions } from "./regions.js";

/* Submit the dialog that asks for a reason. Its data-policy is the policy, empty to use the setting again;
   data-generation is that of the page. Errors are shown in it. */
export async function applyPolicy(form) {
  const dialog = form.closest("dialog");
  const { policy, generation } = dialog.dataset;
  const error = form.querySelector(".error");
  const button = form.querySelector("[type=submit]");
  const body = { policy: policy || null, reason: form.querySelector("input").value.trim() };
  error.hidden = true;
  button.disabled = true;
  try {
    const { value } = await call("PUT", "/api/v1/policies/default/", body, { "If-Match": `"g${generation}"` });
    dialog.close();
    dialog.dataset.generation = value.generation;
    toast(`${value.policy} is the policy of the cluster.`);
    await refreshRegions();
  } catch (problem) {
    error.textContent = problem.problem ? problemText(problem.problem) : problem.message;
    error.hidden = false;
  }
  button.disabled = false;
}
