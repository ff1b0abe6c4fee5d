"""The verbs of `berth profiling`: start, follow and cancel profiling runs."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.applications import APPLICATIONS
from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.jobfile import seconds
from controlplane.cli.long_poll import FollowSpec, follow
from controlplane.cli.output import columns, duration, facts, print_message, print_result, render
from controlplane.cli.verbs import Verbs, argument_type, positive_int

RUNS: Final = "/api/v1/profiling-runs/"
OPEN: Final = ("queued", "running")


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    profiling = verbs.noun("profiling", "Profiling runs of applications")
    list_parser = profiling.add("list", list_runs)
    list_parser.add_argument("--app", help="only this application")
    list_parser.add_argument("--state", action="append", help="repeatable")
    list_parser.add_argument(
        "--limit", type=positive_int, default=50, help="max number of rows (50)"
    )
    which = "id, or the name of an application for its newest run"
    profiling.add("show", show).add_argument("run_of", metavar="RUN", help=which)
    start_parser = profiling.add("start", start)
    start_parser.add_argument("application", help="id or name")
    start_parser.add_argument("--reason", default="", help="reason, stored with the run")
    start_parser.add_argument("--wait", action="store_true", help="show progress until it ends")
    start_parser.add_argument(
        "--timeout", type=argument_type(seconds), help="time limit of --wait (wall time)"
    )
    start_parser.add_argument(
        "--key", help="Idempotency-Key: repeated requests with the same key start nothing new"
    )
    watch_parser = profiling.add("watch", watch)
    watch_parser.add_argument("run_of", metavar="RUN", help=which)
    watch_parser.add_argument(
        "--timeout", type=argument_type(seconds), help="give up after this (wall time)"
    )
    profiling.add("cancel", cancel).add_argument("runs", nargs="+", metavar="RUN", help=which)


def list_runs(client: BerthClient, args: Namespace) -> int:
    """List profiling runs, newest first."""
    states = ",".join(args.state) if args.state else None
    params = {"application": args.app, "state__in": states}
    filters = {name: value for name, value in params.items() if value}
    rows = list(client.pages(RUNS, filters, args.limit))
    headings = ("ID", "APPLICATION", "STATE", "STEPS", "ATTEMPT", "CREATED", "TOOK", "MESSAGE")
    shown = [
        (
            *(run["id"], run["application"], run["state"], _steps(run), run["attempts"] or None),
            *(run["created_at"], _run_duration(run), run["message"] or None),
        )
        for run in rows
    ]
    print_result(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def show(client: BerthClient, args: Namespace) -> int:
    """Show a profiling run: plan, cost, progress and results."""
    run = find_run(client, args.run_of)
    print_result(render(run, args.output, _run_text(run)))
    return Exit.OK


def find_run(client: BerthClient, key: str) -> dict[str, Any]:
    """Return the run with this id, or the newest run of the application with this name.

    Raises
    ------
    CliError : it does not exist.
    """
    if len(key) == 36 and key.count("-") == 4:
        by_id: dict[str, Any] = client.get(f"{RUNS}{quote(key)}/")
        return by_id
    runs = client.get(RUNS, application=key, limit="1")["results"]
    if not runs:
        raise CliError(
            f"no profiling run of an application {key}",
            code=Exit.NOT_FOUND,
            next_command=f"berth profiling start {key}",
        )
    newest: dict[str, Any] = runs[0]
    return newest


def start(client: BerthClient, args: Namespace) -> int:
    """Start profiling an application; new measurements are added to earlier ones."""
    run = _request_run(client, args)
    if args.wait:
        run = _follow_run(client, run, args)
    print_result(render(run, args.output, _outcome(run) if args.wait else str(run["id"])))
    return _exit_code(run)


def watch(client: BerthClient, args: Namespace) -> int:
    """Follow a profiling run until it ends."""
    run = _follow_run(client, find_run(client, args.run_of), args)
    print_result(render(run, args.output, _outcome(run)))
    return _exit_code(run)


def cancel(client: BerthClient, args: Namespace) -> int:
    """Cancel profiling runs; jobs that wait for a first profile fail."""
    runs = [_cancel_run(client, find_run(client, key)) for key in args.runs]
    lines = [f"{run['id']}  {_cancel_word(run)}" for run in runs]
    print_result(render(runs, args.output, "\n".join(lines)))
    return Exit.OK


def _request_run(client: BerthClient, args: Namespace) -> dict[str, Any]:
    """Request a run; with --wait, follow the open run if there is one."""
    address = f"{APPLICATIONS}{quote(args.application, safe='')}/profiling-runs/"
    headers = {"Idempotency-Key": args.key} if args.key else {}
    try:
        created: dict[str, Any] = client.call(
            "POST", address, body={"reason": args.reason}, headers=headers
        ).body
    except CliError as error:
        if error.code is not Exit.CONFLICT:
            raise
        error.next_command = f"berth profiling watch {args.application}"
        open_runs = client.get(address, state__in=",".join(OPEN), limit="1")["results"]
        if not args.wait or not open_runs:
            raise
        open_run: dict[str, Any] = open_runs[0]
        print_message(f"berth: run {open_run['id']} is already open; following it")
        return open_run
    return created


def _follow_run(client: BerthClient, run: Mapping[str, Any], args: Namespace) -> dict[str, Any]:
    """Follow a run until it ends; Ctrl-C does not stop the run."""
    run_id = str(run["id"])
    spec = FollowSpec(
        address=f"{RUNS}{run_id}/",
        topic="operations",
        subject=str(run["operation"]),
        state=lambda run: str(run["state"]),
        line=_progress,
        is_over=_is_over,
        noun="run",
        next_command=f"berth profiling watch {run_id}",
    )
    try:
        return follow(client, spec, timeout_s=args.timeout, write=print_message)
    except KeyboardInterrupt:
        print_message(
            f"\nberth: the run continues in the background\n  try: berth profiling watch {run_id}"
        )
        raise


def _cancel_run(client: BerthClient, run: Mapping[str, Any]) -> dict[str, Any]:
    """Cancel the operation of a run and read the run again."""
    if _is_over(run):
        raise CliError(
            f"run {run['id']} of {run['application']} is already {run['state']}",
            code=Exit.CONFLICT,
            next_command="berth profiling list --state queued --state running",
        )
    if run["operation"] is None:
        raise _cannot_cancel(run)
    try:
        client.post(f"/api/v1/operations/{run['operation']}/cancel/")
    except CliError as error:
        if error.code is Exit.NOT_FOUND:
            raise _cannot_cancel(run, request_id=error.request_id) from None
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth profiling show {run['id']}"
        raise
    updated: dict[str, Any] = client.get(f"{RUNS}{run['id']}/")
    return updated


def _cannot_cancel(run: Mapping[str, Any], *, request_id: str = "") -> CliError:
    # operations are visible to their requester; those of agents to operators
    return CliError(
        f"run {run['id']} of {run['application']} cannot be cancelled by you",
        code=Exit.AUTH,
        detail="only its requester and operators can cancel it",
        request_id=request_id,
        next_command="berth whoami",
    )


def _cancel_word(run: Mapping[str, Any]) -> str:
    return "cancelled" if run["state"] == "cancelled" else "stopping"


def _is_over(run: Mapping[str, Any]) -> bool:
    return run["state"] not in OPEN


def _exit_code(run: Mapping[str, Any]) -> int:
    return Exit.FAILED if run["state"] in {"failed", "cancelled"} else Exit.OK


def _progress(run: Mapping[str, Any]) -> str:
    return "" if _is_over(run) else f"{_steps(run)}  {run['message']}".rstrip()


def _steps(run: Mapping[str, Any]) -> str:
    done, total = ("?" if run[name] is None else run[name] for name in ("progress", "total"))
    return f"{done} of {total}"


def _run_duration(run: Mapping[str, Any]) -> str | None:
    """Return the duration in cluster time, as reported by the backend if available."""
    if run["result"] is not None:
        return duration(run["result"]["seconds"])
    started, ended = run["started_seconds"], run["finished_seconds"]
    return None if started is None or ended is None else duration(ended - started)


def _outcome(run: Mapping[str, Any]) -> str:
    return f"{run['application']}: {run['state']}; {run['message']}".removesuffix("; ")


def _run_text(run: Mapping[str, Any]) -> str:
    result = run["result"] or {"cells": None, "missing": []}
    lines = [
        facts(
            {
                "id": run["id"],
                "application": run["application"],
                "state": run["state"],
                "created": " for ".join(filter(None, (run["created_at"], run["reason"]))),
                "steps": _steps(run),
                "message": run["message"] or None,
                "attempts": run["attempts"],
                "budget": duration(run["budget_seconds"]),
                "expected": duration(run["expected_seconds"]),
                "took": _run_duration(run),
                "cells": result["cells"],
                "operation": run["operation"],
            }
        )
    ]
    planned = run["plan"]["runs"]
    if planned:
        headings = ("COPY", "PLATFORM", "SERVERS", "UNITS", "SETTING", "SOURCES")
        lines += ["", columns(headings, [_plan_row(planned_run) for planned_run in planned])]
    if result["missing"]:
        missing_rows = [(gap["matrix"], gap["column"], gap["reason"]) for gap in result["missing"]]
        lines += ["", columns(("MISSING", "COLUMN", "REASON"), missing_rows)]
    return "\n".join(lines)


def _plan_row(planned_run: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *(
            planned_run["copy"],
            planned_run["platform"],
            planned_run["servers"],
            planned_run["units"],
        ),
        *(planned_run.get("setting"), ", ".join(planned_run["sources"]) or None),
    )
