/* Names of jobs that a front knows by id. What is to be shown in one go is asked for together; when names have come,
   that is told as "names", and whoever shows, sorts or filters by them does so again. */
import { ApiError, call } from "../api.js";
import { tell } from "./model.js";

const IS_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-/;
const MOST_ASKED = 50; // ids in one request: servers take addresses of 4,000 characters
const names = new Map();
const awaited = new Set();
const unasked = [];

const beginning = (id) => id.slice(0, 13);

/* The name of a job, or the beginning of its id until it is known; empty where there is none. */
export function jobName(id) {
  if (!id || !IS_ID.test(id)) return id ?? "";
  if (!names.has(id) && !awaited.has(id)) {
    if (!unasked.length) queueMicrotask(askAll);
    unasked.push(id);
    awaited.add(id);
  }
  return names.get(id) ?? beginning(id);
}

function askAll() { while (unasked.length) ask(unasked.splice(0, MOST_ASKED)); }

/* A job that is gone, or that this person may not see, keeps the beginning of its id. */
async function ask(ids) {
  try {
    const { results } = (await call("GET", `/api/v1/jobs/?id__in=${ids.join()}&limit=${ids.length}&brief=true`)).value;
    for (const id of ids) names.set(id, beginning(id));
    for (const job of results) names.set(job.id, job.name);
    tell("names");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error; // they are asked for again when they are next to be shown
  } finally {
    for (const id of ids) awaited.delete(id);
  }
}
