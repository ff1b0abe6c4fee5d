/* The same submission with curl, the command line client and Python. */
const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/* Where a document is submitted to: a job, or a job array. */
export const submissionPath = (body) => (body.array ? "/api/v1/arrays/" : "/api/v1/jobs/");

export function curlProgram(body, { host, key }) {
  return [
    `curl -X POST ${host}${submissionPath(body)}`,
    '-H "Authorization: Bearer $BERTH_TOKEN"',
    '-H "Content-Type: application/json"',
    `-H "Idempotency-Key: ${key}"`,
    `-d ${shellQuoted(JSON.stringify(body))}`,
  ].join(" \\\n  ");
}

export function cliProgram(body, { key }) {
  return `cat > job.json <<'EOF'\n${JSON.stringify(body, null, 2)}\nEOF\nberth submit -f job.json --key ${key}`;
}

export function pythonProgram(body, { host, key }) {
  return `import os

import httpx

job = ${pythonLiteral(body)}
response = httpx.post(
    "${host}${submissionPath(body)}",
    json=job,
    headers={
        "Authorization": f"Bearer {os.environ['BERTH_TOKEN']}",
        "Idempotency-Key": "${key}",
    },
)
response.raise_for_status()
print(response.json()${body.array ? "" : '["metadata"]'}["id"])`;
}

const PYTHON_NAMES = { true: "True", false: "False", null: "None" };

/* JSON with the constants of Python; strings stay as they are. */
function pythonLiteral(value) {
  return JSON.stringify(value, null, 4).replace(
    /"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g,
    (token) => PYTHON_NAMES[token] ?? token,
  );
}
