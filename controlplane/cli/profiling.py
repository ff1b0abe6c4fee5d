"""The verbs of `berth profiling`: what is measured of applications, how far it is, and why."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.applications import APPLICATIONS
from controlplane.cli.client import Client
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.following import Followed, follow
from controlplane.cli.output import columns, duration, facts, render, say, tell

RUNS: Final = "/api/v1/profiling-runs/"
OPEN: Final = ("queued", "running")


def list_runs(client: Client, args: Namespace) -> int:
    """List profiling runs, newest first."""
    states = ",".join(args.state) if args.state else None
    params = {"application": args.app, "state__in": states}
    wanted = {name: value for name, value in params.items() if value}
    rows = list(client.pages(RUNS, wanted, args.limit))
    headings = ("ID", "APPLICATION", "STATE", "STEPS", "ATTEMPT", "ASKED", "TOOK", "MESSAGE")
    shown = [
        (
            *(run["id"], run["application"], run["state"], _steps(run), run["attempts"] or None),
            *(run["created_at"], _took(run), run["message"] or None),
        )
        for run in rows
    ]
    say(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def show(client: Client, args: Namespace) -> int:
    """Show a profiling run: its plan and cost, how far it is, and what it brought."""
    run = find_run(client, args.run_of)
    say(render(run, args.output, _shown(run)))
    return Exit.OK


def find_run(client: Client, key: str) -> dict[str, Any]:
    """Return a run by id, or the newest of the application of that name.

    Raises
    ------
    CliError : there is none.
    """
    if len(key) == 36 and key.count("-") == 4:
        try:
            found: dict[str, Any] = client.get(f"{RUNS}{quote(key)}/")
        except CliError as error:
            if error.code is Exit.NOT_FOUND:
                error.next_command = "berth profiling list"
            raise
        return found
    runs = client.get(RUNS, application=key, limit="1")["results"]
    if not runs:
        raise CliError(
            f"no application {key} was ever profiled",
            code=Exit.NOT_FOUND,
            next_command=f"berth profiling start {key}",
        )
    newest: dict[str, Any] = runs[0]
    return newest


def start(client: Client, args: Namespace) -> int:
    """Measure an application, again if it is known: what is found is added."""
    run = _asked(client, args)
    if args.wait:
        run = _followed(client, run, args)
    say(render(run, args.output, _outcome(run) if args.wait else str(run["id"])))
    return _code(run)


def watch(client: Client, args: Namespace) -> int:
    """Follow a profiling run until it ends."""
    run = _followed(client, find_run(client, args.run_of), args)
    say(render(run, args.output, _outcome(run)))
    return _code(run)


def cancel(client: Client, args: Namespace) -> int:
    """Cancel profiling runs; jobs that wait for a first profile fail."""
    runs = [_cancelled(client, find_run(client, key)) for key in args.runs]
    lines = [f"{run['id']}  {_cancel_word(run)}" for run in runs]
    say(render(runs, args.output, "\n".join(lines)))
    return Exit.OK


def _asked(client: Client, args: Namespace) -> dict[str, Any]:
    """Ask for a run; with --wait, take up the one that is open already."""
    address = f"{APPLICATIONS}{quote(args.application, safe='')}/profiling-runs/"
    headers = {"Idempotency-Key": args.key} if args.key else {}
    try:
        asked: dict[str, Any] = client.call(
            "POST", address, body={"reason": args.reason}, headers=headers
        ).body
    except CliError as error:
        if error.code is Exit.NOT_FOUND:
            error.next_command = "berth app list"
        if error.code is not Exit.CONFLICT:
            raise
        error.next_command = f"berth profiling watch {args.application}"
        found = client.get(address, state__in=",".join(OPEN), limit="1")["results"]
        if not args.wait or not found:
            raise
        under_way: dict[str, Any] = found[0]
        tell(f"berth: run {under_way['id']} is at it already; following that one")
        return under_way
    return asked


def _followed(client: Client, run: Mapping[str, Any], args: Namespace) -> dict[str, Any]:
    """Follow a run until it ends; interrupted, it goes on without us."""
    run_id = str(run["id"])
    followed = Followed(
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
        return follow(client, followed, timeout_s=args.timeout, write=tell)
    except KeyboardInterrupt:
        tell(f"\nberth: the run goes on\n  try: berth profiling watch {run_id}")
        raise


def _cancelled(client: Client, run: Mapping[str, Any]) -> dict[str, Any]:
    """Cancel the operation of a run and read the run again."""
    if _is_over(run) or run["operation"] is None:
        raise CliError(
            f"run {run['id']} of {run['application']} is {run['state']} already",
            code=Exit.CONFLICT,
            next_command="berth profiling list --state queued --state running",
        )
    try:
        client.post(f"/api/v1/operations/{run['operation']}/cancel/")
    except CliError as error:
        if error.code is Exit.NOT_FOUND:
            # operations are for those who asked; what an agent asked for is the operators'
            raise CliError(
                f"run {run['id']} of {run['application']} is not yours to cancel",
                code=Exit.AUTH,
                detail="who asked for it may, and operators",
                request_id=error.request_id,
                next_command="berth whoami",
            ) from None
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth profiling show {run['id']}"
        raise
    again: dict[str, Any] = client.get(f"{RUNS}{run['id']}/")
    return again


def _cancel_word(run: Mapping[str, Any]) -> str:
    return "cancelled" if run["state"] == "cancelled" else "is being stopped"


def _is_over(run: Mapping[str, Any]) -> bool:
    return run["state"] not in OPEN


def _code(run: Mapping[str, Any]) -> int:
    return Exit.FAILED if run["state"] in {"failed", "cancelled"} else Exit.OK


def _progress(run: Mapping[str, Any]) -> str:
    return "" if _is_over(run) else f"{_steps(run)}  {run['message']}".rstrip()


def _steps(run: Mapping[str, Any]) -> str:
    return f"{run['progress']} of {'?' if run['total'] is None else run['total']}"


def _took(run: Mapping[str, Any]) -> str | None:
    """Return the cluster time it took: what its backend says, else what passed here."""
    if run["result"] is not None:
        return duration(run["result"]["seconds"])
    begun, ended = run["started_seconds"], run["finished_seconds"]
    return None if begun is None or ended is None else duration(ended - begun)


def _outcome(run: Mapping[str, Any]) -> str:
    return f"{run['application']}: {run['state']}; {run['message']}".removesuffix("; ")


def _shown(run: Mapping[str, Any]) -> str:
    result = run["result"] or {"cells": None, "missing": []}
    lines = [
        facts(
            {
                "id": run["id"],
                "application": run["application"],
                "state": run["state"],
                "asked": f"{run['created_at']}{' for ' if run['reason'] else ''}{run['reason']}",
                "steps": _steps(run),
                "message": run["message"] or None,
                "attempts": run["attempts"],
                "budget": duration(run["budget_seconds"]),
                "expected": duration(run["expected_seconds"]),
                "took": _took(run),
                "cells": result["cells"],
                "operation": run["operation"],
            }
        )
    ]
    planned = run["plan"]["runs"]
    if planned:
        headings = ("COPY", "PLATFORM", "SERVERS", "UNITS", "SETTING", "SOURCES")
        lines += ["", columns(headings, [_planned(one) for one in planned])]
    if result["missing"]:
        gaps = [(gap["matrix"], gap["column"], gap["reason"]) for gap in result["missing"]]
        lines += ["", columns(("MISSING", "COLUMN", "BECAUSE"), gaps)]
    return "\n".join(lines)


def _planned(one: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *(one["copy"], one["platform"], one["servers"], one["units"]),
        *(one.get("setting"), ", ".join(one["sources"]) or None),
    )
