/* REST calls with the session and its CSRF token. An error response throws an ApiError with the problem document, a lost
   connection one with status 0. */
export class ApiError extends Error {
  constructor(status, problem, retryAfter = null) {
    super(problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.problem = problem;
    this.retryAfter = retryAfter; // seconds, or null
  }
}

function csrf() {
  return (
    document.cookie
      .split("; ")
      .find((part) => part.startsWith("csrftoken="))
      ?.slice(10) ??
    document.querySelector("[name=csrfmiddlewaretoken]")?.value ??
    ""
  );
}

function lost() {
  throw new ApiError(0, { title: "The server did not answer", detail: "Try again." });
}

export async function call(method, path, body = null, headers = {}) {
  const response = await fetch(path, {
    method,
    credentials: "same-origin",
    headers: {
      Accept: "application/json",
      ...(body === null ? {} : { "Content-Type": "application/json" }),
      ...(method === "GET" ? {} : { "X-CSRFToken": csrf() }),
      ...headers,
    },
    body: body === null ? null : JSON.stringify(body),
  }).catch(lost);
  const text = await response.text().catch(lost);
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = { title: text.slice(0, 200) };
  }
  if (!response.ok) {
    const problem = value && typeof value === "object" ? value : {};
    problem.request_id ??= response.headers.get("X-Request-ID") ?? "";
    problem.title ??= `The server returned ${response.status}`;
    throw new ApiError(response.status, problem, Number(response.headers.get("Retry-After")) || null);
  }
  return { value, headers: response.headers, status: response.status };
}
