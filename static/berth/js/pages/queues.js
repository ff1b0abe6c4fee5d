/* Queues: review proposed preemptions. */
export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-proposal]");
    if (button) review(button.dataset.proposal);
  });
}

async function review(id) {
  const { openProposal } = await import("../proposals.js");
  await openProposal(id);
}
