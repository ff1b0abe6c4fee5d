/* Policies: apply one to the cluster. */
import { byId } from "../dom.js";
import { applyPolicy } from "../policy.js";

export function start() {
  const dialog = byId("policy-apply");
  if (!dialog) return;
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-apply]");
    if (button) ask(dialog, button.dataset.apply);
  });
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    applyPolicy(event.target);
  });
}

/* Ask for the reason; without a policy, the setting decides again. */
function ask(dialog, policy) {
  dialog.dataset.policy = policy;
  const name = policy || dialog.dataset.setting;
  for (const place of dialog.querySelectorAll("[data-name]")) place.textContent = name;
  dialog.querySelector(".error").hidden = true;
  dialog.showModal();
}
