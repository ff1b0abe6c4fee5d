"""The verbs of `berth app`: what is believed of applications, and correcting it."""

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from controlplane.cli.client import Client
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import (
    columns,
    facts,
    interval,
    render,
    say,
    scaled,
    tell,
)

APPLICATIONS: Final = "/api/v1/applications/"
SHOWN_CHANGES: Final = 12


def add_override_options(parser: ArgumentParser) -> None:
    """Declare what `berth app override` takes."""
    parser.usage = (
        "berth app override APPLICATION [--withdraw ID]\n"
        "       berth app override APPLICATION MATRIX COLUMN VALUE --reason WHY [--preview]"
    )
    add = parser.add_argument
    add("application", help="id or name")
    add("matrix", nargs="?", help="e.g. tolerated; those in force are listed when left out")
    add("column", nargs="?", help="e.g. llc_capacity")
    add("value", nargs="?", type=_number, help="in the unit of the matrix")
    add("--reason", help="why, for those who read it later")
    add("--preview", action="store_true", help="only say which jobs would change")
    add("--withdraw", metavar="ID", help="let measurements speak again; 'all' for every one")


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"must be a finite number, not {text}")
    return value


def list_applications(client: Client, args: Namespace) -> int:
    """List applications by name."""
    params = {"q": args.query, "kind": args.kind}
    wanted = {name: value for name, value in params.items() if value}
    rows = list(client.pages(APPLICATIONS, wanted, args.limit))
    table = columns(
        ("NAME", "KIND", "KNOWN SINCE", "DESCRIPTION"),
        [
            (
                row["name"],
                row["kind"],
                row["created_at"],
                row["description"] or None,
            )
            for row in rows
        ],
    )
    say(render(rows, args.output, table))
    return Exit.OK


def show(client: Client, args: Namespace) -> int:
    """Show an application and how well it is known."""
    found = _read(client, args.application, "")
    found["classification"] = _classification(client, args.application)
    found["overrides"] = _read(client, args.application, "overrides/")["results"]
    say(render(found, args.output, facts(_facts(found))))
    return Exit.OK


def _facts(found: Mapping[str, Any]) -> dict[str, Any]:
    profile = found["classification"]
    shown: dict[str, Any] = {
        "name": found["name"],
        "kind": found["kind"],
        "description": found["description"] or None,
        "profile": "none yet: its first job has it profiled",
    }
    if profile is None:
        return shown
    fresh = "another is in force" if profile["is_stale"] else "in force"
    counts = ", ".join(f"{n} {source}" for source, n in profile["sources"].items())
    return shown | {
        "profile": f"{profile['number']}{', a new one is drawn' if profile['is_pending'] else ''}",
        "drawn": f"{profile['created_at']} by {profile['estimator']}",
        "revision": f"{profile['revision']} ({fresh})",
        "cells": counts,
        "flags": ", ".join(profile["flags"]) or None,
        "drift": _drift(profile["drift"]),
        "overrides": f"{len(found['overrides'])} in force" if found["overrides"] else None,
    }


def _drift(drift: Mapping[str, Any] | None) -> str:
    if drift is None:
        return "no job has been compared yet"
    since = drift["flagged_seconds"]
    verdict = "predictions hold" if since is None else f"predictions are wrong since {since:.0f} s"
    return f"{verdict} (mean error {drift['mean_error']:+.1%} of {drift['observations']} seen)"


def profile(client: Client, args: Namespace) -> int:
    """Show every cell of an application's profile, measured or inferred, with 90% intervals."""
    found = _read(client, args.application, "classification/")
    rows = [
        (
            *(matrix, part["columns"][i], scaled(part["value"][i])),
            *(scaled(part["low"][i]), scaled(part["high"][i])),
            *(part["unit"][i], part["source"][i], part["samples"][i] or None),
        )
        for matrix, part in found["cells"].items()
        if args.matrix in {None, matrix}
        for i in range(len(part["columns"]))
    ]
    if not rows:
        raise CliError(
            f"there is no matrix {args.matrix}",
            code=Exit.NOT_FOUND,
            detail=f"there are {', '.join(found['cells'])}",
            next_command="berth matrices",
        )
    headings = ("MATRIX", "COLUMN", "VALUE", "LOW", "HIGH", "UNIT", "SOURCE", "SAMPLES")
    say(render(found, args.output, columns(headings, rows)))
    return Exit.OK


def override(client: Client, args: Namespace) -> int:
    """Put a cell above whatever is measured, or take that back."""
    cell = (args.matrix, args.column, args.value)
    if args.withdraw is not None:
        if args.matrix is not None or args.preview:
            raise _usage("--withdraw stands alone")
        return _withdraw(client, args)
    if args.matrix is None:
        return _list(client, args)
    if None in cell:
        raise _usage("MATRIX, COLUMN and VALUE belong together")
    body = {
        "cells": [{"matrix": args.matrix, "column": args.column, "value": args.value}],
        "reason": args.reason,
    }
    if args.preview:
        body["reason"] = args.reason or "preview"
        return _preview(client, args, body)
    if not args.reason:
        raise _usage("say why with --reason")
    made = _write(client, "POST", args.application, "overrides/", body)
    tell("berth: the profile follows in a moment")
    say(render(made, args.output, "\n".join(row["id"] for row in made["results"])))
    return Exit.OK


def _list(client: Client, args: Namespace) -> int:
    rows = _read(client, args.application, "overrides/")["results"]
    shown = [
        (
            *(row["id"], row["matrix"], row["column"], scaled(row["value"]), row["unit"]),
            *(row["created_by"], row["created_at"], row["reason"]),
        )
        for row in rows
    ]
    headings = ("ID", "MATRIX", "COLUMN", "VALUE", "UNIT", "BY", "AT", "REASON")
    say(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def _withdraw(client: Client, args: Namespace) -> int:
    which = "" if args.withdraw == "all" else f"{_id(args)}/"
    _write(client, "DELETE", args.application, f"overrides/{which}", None)
    tell("berth: withdrawn; the profile follows in a moment")
    return Exit.OK


def _id(args: Namespace) -> UUID:
    try:
        return UUID(args.withdraw)
    except ValueError:
        raise CliError(
            f"{args.withdraw!r} is not the id of an override, nor 'all'",
            code=Exit.USAGE,
            next_command=f"berth app override {args.application}",
        ) from None


def _preview(client: Client, args: Namespace, body: Mapping[str, Any]) -> int:
    found = _write(client, "POST", args.application, "overrides/preview/", body)
    say(render(found, args.output, _preview_table(found)))
    return Exit.OK


def _preview_table(found: Mapping[str, Any]) -> str:
    examined, total = found["examined"], found["total"]
    of = f"{examined}" if examined == total else f"the first {examined} of {total}"
    lines = [f"Nothing was written. {found['changed']} of {of} jobs would change."]
    if found["profile"] is None:
        lines.append("It was never profiled: overrides come in with its first profile.")
    cells = found["cells"]
    rows = [
        (
            *(cell["matrix"], cell["column"], cell["unit"]),
            *(interval(cell["before"], cell["unit"]), interval(cell["after"], cell["unit"])),
        )
        for cell in cells[:SHOWN_CHANGES]
    ]
    if rows:
        lines += ["", columns(("MATRIX", "COLUMN", "UNIT", "NOW", "THEN"), rows)]
    if len(cells) > SHOWN_CHANGES:
        lines.append(f"{SHOWN_CHANGES} of {len(cells)} cells; -o json shows all")
    if found["jobs"]:
        headings = ("JOB", "NAME", "STATE", "UNITS", "PLATFORMS", "PREDICTED", "SERVERS")
        lines += ["", columns(headings, [_previewed(job) for job in found["jobs"]])]
    return "\n".join(lines)


def _previewed(job: Mapping[str, Any]) -> tuple[Any, ...]:
    units, feasible, predicted = job["units"], job["feasible"], job["predicted"]
    now, then = (interval(predicted[when], job["unit"]) for when in ("before", "after"))
    size = _moved(units["before"], units["after"] if feasible["after"] else "infeasible")
    return (
        job["id"],
        job["name"],
        job["state"],
        size if job["units_held"] is None else f"{size} (holds {job['units_held']})",
        _platforms(job),
        _moved(now, then),
        _servers(job),
    )


def _moved(before: Any, after: Any) -> str:
    before = "-" if before is None else before
    return str(before) if before == after else f"{before} -> {after}"


def _platforms(job: Mapping[str, Any]) -> str | None:
    moved = [f"+{name}" for name in job["platforms_gained"]]
    moved += [f"-{name}" for name in job["platforms_lost"]]
    return " ".join(moved) or None


def _servers(job: Mapping[str, Any]) -> str | None:
    """Return how many good servers there are, or which of those it is on suit it no more."""
    if job["good_servers"] is not None:
        return f"{_moved(job['good_servers']['before'], job['good_servers']['after'])} good"
    parts = []
    for server in job["servers"]:
        before, after = server["acceptable"]["before"], server["acceptable"]["after"]
        if before and not after:
            parts.append(f"{server['server']} too noisy ({server['tightest']})")
        elif after and not before:
            parts.append(f"{server['server']} quiet enough")
    return ", ".join(parts) or None


def _classification(client: Client, key: str) -> Any:
    try:
        return _read(client, key, "classification/")
    except CliError as error:
        if error.code is not Exit.NOT_FOUND:
            raise
        return None


def _read(client: Client, key: str, what: str) -> Any:
    return _write(client, "GET", key, what, None)


def _write(client: Client, method: str, key: str, what: str, body: Any) -> Any:
    address = f"{APPLICATIONS}{quote(key, safe='')}/{what}"
    try:
        return client.call(method, address, body=body).body
    except CliError as error:
        if error.code is Exit.NOT_FOUND:
            error.next_command = "berth app list"
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth app override {key}"
        raise


def _usage(title: str) -> CliError:
    return CliError(
        title,
        code=Exit.USAGE,
        next_command="berth app override --help",
    )
