/* One server: cordon, drain, return to service. */
import { refreshRegions } from "../regions.js";
import { changeServers } from "../servers.js";

export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-server-action]");
    const bar = button?.closest("[data-server]");
    if (!bar) return;
    changeServers(
      button.dataset.serverAction,
      [{ id: bar.dataset.server, name: bar.dataset.name }],
      Number(bar.dataset.jobs),
      refreshRegions,
    );
  });
}
