/* Names of the jobs that a front knows by id. Ids needed at the same time are requested together; the topic "names" is
   published when names have arrived. */
import { ApiError, call } from "../api.js";
import { publish } from "./model.js";

const IS_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-/;
const MAX_IDS = 50; // per request, so that the address stays below 4,000 characters
const names = new Map();
const pending = new Set();
const queue = [];

const prefix = (id) => id.slice(0, 13);

/* The name of a job, or the start of its id until the name is known; empty without an id. */
export function jobName(id) {
  if (!id || !IS_ID.test(id)) return id ?? "";
  if (!names.has(id) && !pending.has(id)) {
    if (!queue.length) queueMicrotask(requestAll);
    queue.push(id);
    pending.add(id);
  }
  return names.get(id) ?? prefix(id);
}

function requestAll() {
  while (queue.length) requestNames(queue.splice(0, MAX_IDS));
}

/* A deleted job, or one that the user may not see, keeps the start of its id. */
async function requestNames(ids) {
  try {
    const { results } = (await call("GET", `/api/v1/jobs/?id__in=${ids.join()}&limit=${ids.length}&brief=true`)).value;
    for (const id of ids) names.set(id, prefix(id));
    for (const job of results) names.set(job.id, job.name);
    publish("names");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error; // requested again when they are shown again
  } finally {
    for (const id of ids) pending.delete(id);
  }
}
