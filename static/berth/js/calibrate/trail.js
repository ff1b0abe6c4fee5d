/* The plans carried out since the workload of the front: where the cluster was and where each plan brought it. */
import { ApiError, call } from "../api.js";
import { mayChange, model, publish, subscribe } from "./model.js";

const MAX_PLANS = 12;
const POLL_MS = 30_000;

export function startTrail() {
  if (!mayChange()) return;
  let shown = "";
  const refresh = async () => {
    model.trail = await verifiedPlans();
    const key = JSON.stringify(model.trail);
    if (key !== shown && model.points) publish("trail");
    shown = key;
  };
  let front = null;
  subscribe("points", () => {
    if (model.front.id === front) return;
    if (!front)
      setInterval(() => {
        if (!document.hidden) refresh();
      }, POLL_MS);
    front = model.front.id;
    refresh();
  });
}

/* Measured plans that ended after the workload was read, oldest first. */
async function verifiedPlans() {
  const { cluster_seconds: since } = model.front;
  if (since === null) return [];
  try {
    const { value } = await call("GET", `/api/v1/plans/?state=done&limit=${MAX_PLANS}`);
    return value.results
      .filter((plan) => plan.ended_cluster_seconds >= since && plan.realised?.after?.normalised)
      .map(({ name, verdict, realised }) => ({
        name,
        verdict,
        before: realised.before.normalised,
        after: realised.after.normalised,
      }))
      .reverse();
  } catch (error) {
    if (error instanceof ApiError) return []; // the plots are complete without the trail
    throw error;
  }
}
