/* Names of jobs that a front knows by id; each is asked for once, when it is first to be shown. */
import { ApiError, call } from "../api.js";

const IS_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-/;
const names = new Map(); // a name, or the promise of one

async function ask(id) {
  let name = id.slice(0, 13);
  try { name = (await call("GET", `/api/v1/jobs/${id}/`)).value.metadata.name; } catch (error) { if (!(error instanceof ApiError)) throw error; }
  names.set(id, name);
}

/* The name, or the beginning of the id until it is known: `whenKnown` is called then. */
export function jobName(id, whenKnown = () => {}) {
  if (!id || !IS_ID.test(id)) return id ?? "";
  const known = names.get(id);
  if (typeof known === "string") return known;
  if (!known) names.set(id, ask(id));
  names.get(id).then(whenKnown);
  return id.slice(0, 13);
}
