"""The verbs of `berth` for jobs; each returns the exit code."""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import BerthClient
from controlplane.cli.diagnosis import diagnosis_lines
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.job_options import add_array_option, add_job_options, read_job_or_array
from controlplane.cli.jobfile import seconds
from controlplane.cli.long_poll import FollowSpec, follow
from controlplane.cli.output import (
    cluster_day,
    columns,
    duration,
    facts,
    job_state,
    percent,
    print_message,
    print_result,
    render,
    requested_guarantee,
    start_text,
    target,
)
from controlplane.cli.verbs import Verbs, argument_type, positive_int

JOBS: Final = "/api/v1/jobs/"
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
TERMINAL: Final = frozenset({"succeeded", "failed", "cancelled"})
PLACED: Final = frozenset({"starting", "running"}) | TERMINAL
WAIT_FOR: Final = {
    "placed": PLACED,
    "running": frozenset({"running"}) | TERMINAL,
    "done": TERMINAL,
}


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    _add_submit_options(verbs.add("submit", submit))
    verbs.add("get", get).add_argument("job", help="id or name")
    _add_list_options(verbs.add("list", list_jobs))
    watch_parser = verbs.add("watch", watch)
    watch_parser.add_argument("job", help="id or name")
    watch_parser.add_argument(
        "--timeout", type=argument_type(seconds), help="give up after this (wall time)"
    )
    cancel_parser = verbs.add("cancel", cancel)
    cancel_parser.add_argument("jobs", nargs="*", metavar="JOB", help="id or name")
    cancel_parser.add_argument("--array", metavar="ID", help="all open members of this array")
    why_parser = verbs.add("why", why)
    why_parser.add_argument("job", help="id or name")
    why_parser.add_argument(
        "--candidates", action="store_true", help="also show the units examined"
    )


def _add_submit_options(parser: ArgumentParser) -> None:
    add_job_options(parser)
    add_array_option(parser)
    parser.add_argument(
        "--key", help="Idempotency-Key: repeated requests with the same key create one job"
    )
    parser.add_argument(
        "--wait", choices=list(WAIT_FOR), help="wait until the job reaches this state"
    )
    parser.add_argument(
        "--timeout", type=argument_type(seconds), help="time limit of --wait (wall time)"
    )


def _add_list_options(parser: ArgumentParser) -> None:
    parser.add_argument("--state", action="append", help="repeatable")
    parser.add_argument("--app")
    parser.add_argument("--project")
    parser.add_argument("--label", metavar="NAME:VALUE")
    parser.add_argument("--array", metavar="ID", help="members of this array")
    parser.add_argument("-q", "--query", help="first letters of words of the name")
    parser.add_argument("--limit", type=positive_int, default=50, help="max number of rows (50)")


def submit(client: BerthClient, args: Namespace) -> int:
    """Submit a job or a job array, and print its id."""
    body = read_job_or_array(args)
    if "array" in body:
        if args.wait:
            raise CliError("--wait waits for one job, not for an array", code=Exit.USAGE)
        from controlplane.cli.arrays import submit_array  # noqa: PLC0415 - imported if used

        return submit_array(client, args, body)
    headers = {"Idempotency-Key": args.key} if args.key else {}
    reply = client.call("POST", JOBS, body=body, headers=headers)
    job = reply.body
    if reply.headers.get("idempotency-replayed") == "true":
        print_message("berth: this key was used before; no new job was created")
    for text in job.get("warnings", ()):
        print_message(f"warning: {text}")
    job_id = job["metadata"]["id"]
    if args.wait:
        job = _follow(
            client, job_id, until=WAIT_FOR[args.wait], timeout_s=args.timeout, quiet=True
        )
    print_result(render(job, args.output, job_id))
    if args.wait:
        _require_success(job)
    return Exit.OK


def find_job(client: BerthClient, key: str) -> dict[str, Any]:
    """Return the job with this id, or the newest job with this name.

    Raises
    ------
    CliError : it does not exist.
    """
    if _ID.fullmatch(key):
        by_id: dict[str, Any] = client.get(f"{JOBS}{quote(key)}/")
        return by_id
    matches = client.get(JOBS, name=key, limit="1")["results"]
    if not matches:
        raise CliError(f"job {key} not found", code=Exit.NOT_FOUND, next_command="berth list")
    job: dict[str, Any] = matches[0]
    return job


def get(client: BerthClient, args: Namespace) -> int:
    """Show one job."""
    job = find_job(client, args.job)
    used: list[dict[str, Any]] = []
    if job["spec"].get("command") and args.output == "table":
        path = f"{JOBS}{job['metadata']['id']}/metrics/"
        used = client.get(path, ordering="-cluster_seconds", limit="1")["results"]
    print_result(render(job, args.output, _job_table(job, *used)))
    return Exit.OK


def _job_table(job: Mapping[str, Any], used: Mapping[str, Any] | None = None) -> str:
    meta, spec, status = job["metadata"], job["spec"], job["status"]
    reason = status["reason"]
    return facts(
        {
            "id": meta["id"],
            "name": meta["name"],
            "project": meta["project"],
            "array": _array(meta),
            "application": spec["application"],
            "target": target(spec["target"]),
            "state": job_state(status),
            "reason": f"{reason['code']}: {reason['sentence']}" if reason else None,
            "units": _units(status),
            "progress": percent(status["progress"]),
            "attainment": percent(status["attainment"]),
            "usage": used and _usage(used),
            "created": meta["created_at"],
            "request id": meta["request_id"],
        }
    )


def _array(meta: Mapping[str, Any]) -> str | None:
    array = meta.get("array")
    return f"{array['id']}, index {array['index']}" if array else None


def _usage(used: Mapping[str, Any]) -> str:
    """Return what the processes of a command used by the last report."""
    return (
        f"{percent(used['cpu_share'])} of its cores; threads: {percent(used['run_wait'])} waiting"
        f" for a core, {percent(used['blocked'])} blocked; {used['memory_bytes'] / 2**20:,.0f} MiB"
    )


def _units(status: Mapping[str, Any]) -> str | None:
    if not status.get("units_missing"):
        return None if status["units"] is None else str(status["units"])
    return f"{status['units']}, {status['units_missing']} more when units are freed"


def list_jobs(client: BerthClient, args: Namespace) -> int:
    """List jobs, newest first."""
    params = {
        "state__in": ",".join(args.state) if args.state else None,
        "application": args.app,
        "project": args.project,
        "q": args.query,
        "label": args.label,
        "array": args.array,
    }
    rows = list(client.pages(JOBS, {k: v for k, v in params.items() if v}, args.limit))
    table = columns(
        ("ID", "NAME", "APPLICATION", "TARGET", "STATE", "REASON", "UNITS", "DONE", "OF TARGET"),
        [_job_row(job) for job in rows],
    )
    print_result(render(rows, args.output, table))
    return Exit.OK


def _job_row(job: Mapping[str, Any]) -> tuple[Any, ...]:
    status = job["status"]
    return (
        job["metadata"]["id"],
        job["metadata"]["name"],
        job["spec"]["application"],
        target(job["spec"]["target"]),
        job_state(status),
        status["reason"]["code"] if status["reason"] else None,
        status["units"],
        percent(status["progress"]),
        percent(status["attainment"]),
    )


def watch(client: BerthClient, args: Namespace) -> int:
    """Follow a job until it ends."""
    job_id = find_job(client, args.job)["metadata"]["id"]
    is_for_people = args.output == "table"
    job = _follow(client, job_id, until=TERMINAL, timeout_s=args.timeout, quiet=not is_for_people)
    if not is_for_people:
        print_result(render(job, args.output, ""))
    _require_success(job)
    return Exit.OK


def _follow(
    client: BerthClient,
    job_id: str,
    *,
    until: frozenset[str],
    timeout_s: float | None,
    quiet: bool,
) -> dict[str, Any]:
    """Follow a job, printing each change, until it reaches one of the states."""
    spec = FollowSpec(
        address=f"{JOBS}{job_id}/",
        topic="jobs",
        subject=job_id,
        state=lambda job: str(job["status"]["state"]),
        line=lambda job: "" if quiet else _progress_line(job),
        is_over=lambda job: job["status"]["state"] in until,
        noun="job",
        next_command=f"berth why {job_id}",
    )
    return follow(client, spec, timeout_s=timeout_s, write=print_result)


def _progress_line(job: Mapping[str, Any]) -> str:
    status = job["status"]
    reason = status["reason"]["code"] if status["reason"] else ""
    parts = [status["state"], reason, percent(status["progress"])]
    if status["attainment"] is not None:
        parts.append(f"{percent(status['attainment'])} of target")
    return "  ".join(part for part in parts if part)


def _require_success(job: Mapping[str, Any]) -> None:
    """Raise an error with the reason if an awaited job has failed or was cancelled."""
    state, reason = job["status"]["state"], job["status"]["reason"]
    if state not in {"failed", "cancelled"}:
        return
    detail = f"{reason['code']}: {reason['sentence']} {reason['message']}" if reason else ""
    raise CliError(
        "the job failed" if state == "failed" else "the job was cancelled",
        code=Exit.INFEASIBLE if state == "failed" else Exit.FAILED,
        detail=detail.rstrip(),
        next_command=f"berth why {job['metadata']['id']}",
    )


def cancel(client: BerthClient, args: Namespace) -> int:
    """Cancel jobs, or all open members of an array."""
    if bool(args.jobs) == bool(args.array):
        raise CliError("name jobs, or one array with --array", code=Exit.USAGE)
    if args.array:
        from controlplane.cli.arrays import cancel_array  # noqa: PLC0415 - imported if used

        return cancel_array(client, args)
    cancelled = []
    for key in args.jobs:
        job_id = find_job(client, key)["metadata"]["id"]
        cancelled.append(client.post(f"{JOBS}{job_id}/cancel/").body)
    lines = [f"{job['metadata']['id']}  {_cancel_word(job)}" for job in cancelled]
    print_result(render(cancelled, args.output, "\n".join(lines)))
    return Exit.OK


def _cancel_word(job: Mapping[str, Any]) -> str:
    return "cancelled" if job["status"]["state"] == "cancelled" else "stopping"


def why(client: BerthClient, args: Namespace) -> int:
    """Explain the state of a job, its last decision, and why it misses its target."""
    job = find_job(client, args.job)
    job_id = job["metadata"]["id"]
    response = client.get(f"{JOBS}{job_id}/explanation/")
    attainment = job["status"]["attainment"]
    if attainment is not None and attainment < 1.0:
        response["diagnosis"] = client.get(f"{JOBS}{job_id}/diagnosis/")
    if args.candidates and response["decision"]:
        path = f"/api/v1/decisions/{response['decision']['id']}/candidates/"
        response["candidates"] = client.get(path)
    ceiling = job["spec"]["constraints"].get("max_cost")
    print_result(render(response, args.output, _why_table(response, ceiling)))
    return Exit.OK


def _why_table(response: Mapping[str, Any], ceiling: float | None = None) -> str:
    lines = [response["summary"] or f"The job is {response['state']}."]
    reason, decision = response["reason"], response["decision"]
    if reason:
        lines += ["", f"{reason['code']} (tier {reason['tier']}): {reason['sentence']}"]
        lines += [f"  {reason['message']}"] if reason["message"] else []
        lines += [f"  also: {', '.join(reason['also'])}"] if reason["also"] else []
        lines.append(f"  next: {reason['next_action']}")
    kept = response.get("reservation")
    if kept:
        units = "1 unit is" if kept["units"] == 1 else f"{kept['units']:,} units are"
        lines.append(
            f"  {units} reserved for it, free by {cluster_day(kept['start_seconds'])}"
            " of cluster time at the latest"
        )
    if response.get("start"):
        lines.append(f"  predicted start: {start_text(response['start'])}")
    if decision:
        lines += ["", *_decision_lines(decision)]
    if decision and ceiling is not None:
        lines.append(f"  {_cost_text(decision['predicted'].get('cost'), ceiling)}")
    if response.get("diagnosis"):
        lines += ["", *diagnosis_lines(response["diagnosis"])]
    table = response.get("candidates")
    if table:
        lines += ["", _candidate_table(table["results"])]
    return "\n".join(lines)


def _cost_text(cost: float | None, ceiling: float) -> str:
    limit = f"at most {ceiling:,.0f} unit-seconds"
    return f"cost: {limit}" if cost is None else f"predicted cost: {cost:,.0f} of {limit}"


def _decision_lines(decision: Mapping[str, Any]) -> list[str]:
    sample, known = decision["sample"], decision["guarantee"]
    if sample is None:
        by = " by the quota of the project" if decision["reason"] == "QuotaExceeded" else ""
        return [f"Decision {decision['id']}{by}, before a policy examined any unit"]
    lines = [
        f"Decision {decision['id']} by {decision['policy']} v{decision['policy_version']}"
        f" in {duration(sample['elapsed_seconds'])}, snapshot {decision['snapshot']},"
        f" seed {decision['seed']}"
    ]
    # without examined units there is no guarantee
    if sample["units_examined"]:
        assuming = f", assuming {known['assumption']}" if known["assumption"] else ""
        lines.append(f"  {known['statement']}{assuming}")
    return [*lines, *requested_guarantee(known.get("requested"))]


def _candidate_table(candidates: Sequence[Mapping[str, Any]]) -> str:
    """Return the candidates as a table, without the columns that are empty in all rows."""
    rows = [_candidate_cells(candidate) for candidate in candidates]
    named = dict.fromkeys(name for row in rows for name in row)
    names = [name for name in named if any(row.get(name) is not None for row in rows)]
    return columns(
        [name.upper() for name in names], [[row.get(name) for name in names] for row in rows]
    )


def _candidate_cells(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a candidate; its headroom is the smallest of all sources."""
    cells = dict(candidate)
    predicted = cells.pop("expected", None) or {}
    known = [points for points in cells.pop("headroom", None) or () if points is not None]
    return {**cells, **predicted, "headroom": min(known, default=None)}
