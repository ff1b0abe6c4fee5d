"""What each verb of the berth command does; each prints its answer and returns the exit code."""

import getpass
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import Client
from controlplane.cli.config import Config, load_config, save_config
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.following import Followed, follow
from controlplane.cli.jobfile import read_job
from controlplane.cli.output import (
    columns,
    duration,
    facts,
    ips,
    percent,
    render,
    say,
    target,
    tell,
)

JOBS: Final = "/api/v1/jobs/"
TERMINAL: Final = frozenset({"succeeded", "failed", "cancelled"})
PLACED: Final = frozenset({"starting", "running"}) | TERMINAL
WAIT_FOR: Final = {
    "placed": PLACED,
    "running": frozenset({"running"}) | TERMINAL,
    "done": TERMINAL,
}
Verb = Callable[[Client, Namespace], int]


def submit(client: Client, args: Namespace) -> int:
    """Submit a job and print its id."""
    headers = {"Idempotency-Key": args.key} if args.key else {}
    reply = client.call("POST", JOBS, body=read_job(args), headers=headers)
    job = reply.body
    if reply.headers.get("idempotency-replayed") == "true":
        tell("berth: this key was used before; no new job was made")
    job_id = job["metadata"]["id"]
    if args.wait:
        job = _follow(
            client, job_id, until=WAIT_FOR[args.wait], timeout_s=args.timeout, quiet=True
        )
    say(render(job, args.output, job_id))
    return _outcome(job) if args.wait else Exit.OK


def check(client: Client, args: Namespace) -> int:
    """Ask what would happen to a job; nothing is written."""
    job = read_job(args)
    found = client.post("/api/v1/checks/", job).body
    say(render(found, args.output, _check_table(found, job.get("spec", job)["target"])))
    return Exit.INFEASIBLE if found["feasible"] is False else Exit.OK


def _check_table(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    guarantee = found["guarantee"]
    shown = {
        "outcome": found["outcome"],
        "units": found["units"],
        "platforms": ", ".join(found["platforms"]) or None,
        "servers": ", ".join(found["servers"][:5]) or None,
        "predicted": _predicted(found["predicted"], wanted["kind"]),
        "target met": percent(found["probability_met"]),
        "examined": f"{found['units_examined']} of {found['units_eligible']} eligible units",
        "guarantee": guarantee["statement"] if guarantee else None,
    }
    lines = [found["summary"], "", facts(shown)]
    lines += [f"feasible: {suggestion['text']}" for suggestion in found["suggestions"]]
    return "\n".join(lines)


def _predicted(predicted: Mapping[str, float] | None, kind: str) -> str | None:
    """Return what is predicted, in the unit of the target."""
    if predicted is None:
        return None
    unit = ips if kind == "ips" else duration
    low, high = unit(predicted["low"]), unit(predicted["high"])
    return f"{unit(predicted['value'])} (90% within {low} and {high})"


def find_job(client: Client, key: str) -> dict[str, Any]:
    """Return a job by id, or the newest with that name.

    Raises
    ------
    CliError : there is none.
    """
    if len(key) == 36 and key.count("-") == 4:
        found: dict[str, Any] = client.get(f"{JOBS}{quote(key)}/")
        return found
    named = client.get(JOBS, name=key, limit="1")["results"]
    if not named:
        raise CliError(f"there is no job {key}", code=Exit.NOT_FOUND)
    job: dict[str, Any] = named[0]
    return job


def get(client: Client, args: Namespace) -> int:
    """Show one job."""
    job = find_job(client, args.job)
    say(render(job, args.output, _job_table(job)))
    return Exit.OK


def _job_table(job: Mapping[str, Any]) -> str:
    meta, spec, status = job["metadata"], job["spec"], job["status"]
    reason = status["reason"]
    return facts(
        {
            "id": meta["id"],
            "name": meta["name"],
            "project": meta["project"],
            "application": spec["application"],
            "target": target(spec["target"]),
            "state": status["state"] + (" (held)" if status["held"] else ""),
            "reason": f"{reason['code']}: {reason['sentence']}" if reason else None,
            "units": status["units"],
            "progress": percent(status["progress"]),
            "attainment": percent(status["attainment"]),
            "created": meta["created_at"],
            "request id": meta["request_id"],
        }
    )


def list_jobs(client: Client, args: Namespace) -> int:
    """List jobs, newest first."""
    params = {
        "state__in": ",".join(args.state) if args.state else None,
        "application": args.app,
        "project": args.project,
        "q": args.query,
        "label": args.label,
    }
    rows = list(client.pages(JOBS, {k: v for k, v in params.items() if v}, args.limit))
    table = columns(
        ("ID", "NAME", "APPLICATION", "TARGET", "STATE", "REASON", "UNITS", "DONE", "OF TARGET"),
        [_job_row(job) for job in rows],
    )
    say(render(rows, args.output, table))
    return Exit.OK


def _job_row(job: Mapping[str, Any]) -> tuple[Any, ...]:
    status = job["status"]
    return (
        job["metadata"]["id"],
        job["metadata"]["name"],
        job["spec"]["application"],
        target(job["spec"]["target"]),
        status["state"],
        status["reason"]["code"] if status["reason"] else None,
        status["units"],
        percent(status["progress"]),
        percent(status["attainment"]),
    )


def watch(client: Client, args: Namespace) -> int:
    """Follow a job until it ends."""
    job_id = find_job(client, args.job)["metadata"]["id"]
    is_for_people = args.output == "table"
    job = _follow(client, job_id, until=TERMINAL, timeout_s=args.timeout, quiet=not is_for_people)
    if not is_for_people:
        say(render(job, args.output, ""))
    return _outcome(job)


def _follow(
    client: Client, job_id: str, *, until: frozenset[str], timeout_s: float | None, quiet: bool
) -> dict[str, Any]:
    """Follow one job, printing each change, until it is in one of the states."""
    followed = Followed(
        address=f"{JOBS}{job_id}/",
        topic="jobs",
        subject=job_id,
        state=lambda job: str(job["status"]["state"]),
        line=lambda job: "" if quiet else _progress_line(job),
        is_over=lambda job: job["status"]["state"] in until,
        noun="job",
        next_command=f"berth why {job_id}",
    )
    return follow(client, followed, timeout_s=timeout_s, write=say)


def _progress_line(job: Mapping[str, Any]) -> str:
    status = job["status"]
    reason = status["reason"]["code"] if status["reason"] else ""
    parts = [status["state"], reason, percent(status["progress"])]
    if status["attainment"] is not None:
        parts.append(f"{percent(status['attainment'])} of target")
    return "  ".join(part for part in parts if part)


def _outcome(job: Mapping[str, Any]) -> int:
    return Exit.FAILED if job["status"]["state"] in {"failed", "cancelled"} else Exit.OK


def cancel(client: Client, args: Namespace) -> int:
    """Cancel jobs."""
    done = []
    for key in args.jobs:
        job_id = find_job(client, key)["metadata"]["id"]
        done.append(client.post(f"{JOBS}{job_id}/cancel/").body)
    lines = [f"{job['metadata']['id']}  {_cancel_word(job)}" for job in done]
    say(render(done, args.output, "\n".join(lines)))
    return Exit.OK


def _cancel_word(job: Mapping[str, Any]) -> str:
    return "cancelled" if job["status"]["state"] == "cancelled" else "is being stopped"


def why(client: Client, args: Namespace) -> int:
    """Explain where a job is."""
    job_id = find_job(client, args.job)["metadata"]["id"]
    found = client.get(f"{JOBS}{job_id}/explanation/")
    if args.candidates and found["decision"]:
        path = f"/api/v1/decisions/{found['decision']['id']}/candidates/"
        found["candidates"] = client.get(path)
    say(render(found, args.output, _why_table(found)))
    return Exit.OK


def _why_table(found: Mapping[str, Any]) -> str:
    lines = [found["summary"] or f"The job is {found['state']}."]
    reason, decision = found["reason"], found["decision"]
    if reason:
        lines += ["", f"{reason['code']} (tier {reason['tier']}): {reason['sentence']}"]
        lines += [f"  {reason['message']}"] if reason["message"] else []
        lines += [f"  also: {', '.join(reason['also'])}"] if reason["also"] else []
        lines.append(f"  next: {reason['next_action']}")
    if decision:
        sample = decision["sample"]
        lines += [
            "",
            f"Decision {decision['id']} by {decision['policy']} v{decision['policy_version']}"
            f" in {duration(sample['elapsed_seconds'])}, snapshot {decision['snapshot']},"
            f" seed {decision['seed']}",
        ]
        # a refusal before any unit was drawn promises nothing
        if sample["units_examined"]:
            guarantee = decision["guarantee"]
            lines.append(f"  {guarantee['statement']}, assuming {guarantee['assumption']}")
    table = found.get("candidates")
    if table:
        rows = [[_short(row[name]) for name in table["columns"]] for row in table["results"]]
        lines += ["", columns([name.upper() for name in table["columns"]], rows)]
    return "\n".join(lines)


def _short(value: Any) -> Any:
    return f"[{len(value)}]" if isinstance(value, list) else value


def servers(client: Client, args: Namespace) -> int:
    """List servers, or show one."""
    if args.server:
        try:
            found = client.get(f"/api/v1/servers/{quote(args.server, safe='')}/")
        except CliError as error:
            if error.code is Exit.NOT_FOUND:
                error.next_command = "berth servers"
            raise
        say(render(found, args.output, facts(_server_facts(found))))
        return Exit.OK
    params = {"state": args.state, "platform": args.platform, "rack": args.rack}
    wanted = {name: value for name, value in params.items() if value}
    rows = list(client.pages("/api/v1/servers/", wanted, args.limit))
    shown = [list(_server_facts(row).values()) for row in rows]
    headings = [name.upper() for name in _server_facts(rows[0])] if rows else []
    say(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def _server_facts(server: Mapping[str, Any]) -> dict[str, Any]:
    spec, status = server["spec"], server["status"]
    reading = status["reading"] or {}
    return {
        "name": server["metadata"]["name"],
        "platform": spec["platform"],
        "rack": spec["rack"],
        "state": status["state"],
        "allocated": f"{status['allocated']['cores']}/{spec['cores']}",
        "cpu": percent(reading.get("cpu_share")),
        "memory": percent(reading.get("memory_share")),
        "watts": reading.get("power_watts"),
    }


def login(client: Client, args: Namespace) -> int:
    """Keep a token, after asking the server whether it works."""
    token = args.token or (
        getpass.getpass("Token: ") if sys.stdin.isatty() else sys.stdin.readline()
    )
    config = Config(client.config.url, token.strip())
    with Client(config) as signed_in:
        me = signed_in.get("/api/v1/me/")
    path = save_config(os.environ, config)
    tell(f"berth: signed in to {config.url} as {me['username']} ({me['role']}); kept in {path}")
    return Exit.OK


def whoami(client: Client, args: Namespace) -> int:
    """Show who the token stands for."""
    me = client.get("/api/v1/me/")
    projects = ", ".join(f"{p['name']} ({p['role']})" for p in me["projects"])
    table = facts(
        {
            "user": me["username"],
            "role": me["role"],
            "projects": projects or None,
            "server": client.config.url,
        }
    )
    say(render(me, args.output, table))
    return Exit.OK


def version(client: Client, args: Namespace) -> int:
    """Show the versions of client and server."""
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415 - slow to import
    from importlib.metadata import version as installed  # noqa: PLC0415

    try:
        own = installed("berth")
    except PackageNotFoundError:
        own = "from source"
    try:
        server = client.get("/api/v1/version/")
    except CliError as error:
        server = {"error": error.title}
    found = {"client": own, "url": client.config.url, "server": server}
    words = server.get("berth") or f"unknown: {server['error']}"
    say(render(found, args.output, facts({"client": own, "server": words})))
    return Exit.OK


def api(client: Client, args: Namespace) -> int:
    """Call any address of the API and print the answer as it came."""
    body = None
    if args.data is not None:
        body = (sys.stdin.read() if args.data == "-" else args.data).encode()
    method = args.method or ("GET" if body is None else "POST")
    path = args.path if args.path.startswith("/") else f"/api/v1/{args.path}"
    reply = client.call(method, path, body=body)
    if reply.body is not None:
        say(render(reply.body, "json" if args.output == "table" else args.output, ""))
    return Exit.OK


def client_of(args: Namespace) -> Client:
    """Return a client for the configured server."""
    return Client(load_config(os.environ, args.url))
