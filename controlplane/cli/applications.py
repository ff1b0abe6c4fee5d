"""The verbs of `berth app`: applications, their profiles and overrides."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import (
    columns,
    facts,
    interval,
    print_message,
    print_result,
    render,
    scaled,
)
from controlplane.cli.verbs import Verbs, finite_number, positive_int

APPLICATIONS: Final = "/api/v1/applications/"
SHOWN_CHANGES: Final = 12


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    app = verbs.noun("app", "Applications, their profiles and overrides")
    list_parser = app.add("list", list_applications)
    list_parser.add_argument("-q", "--query", help="part of the name")
    list_parser.add_argument("--kind", help="analytics, latency_critical, single_node or batch")
    list_parser.add_argument(
        "--limit", type=positive_int, default=100, help="max number of rows (100)"
    )
    app.add("show", show).add_argument("application", help="id or name")
    profile_parser = app.add("profile", profile)
    profile_parser.add_argument("application", help="id or name")
    profile_parser.add_argument("--matrix", help="only this matrix")
    _add_override_options(app.add("override", override))


def _add_override_options(parser: ArgumentParser) -> None:
    parser.usage = (
        "berth app override APPLICATION [--withdraw ID]\n"
        "       berth app override APPLICATION MATRIX COLUMN VALUE --reason WHY [--preview]"
    )
    add = parser.add_argument
    add("application", help="id or name")
    add("matrix", nargs="?", help="e.g. tolerated; without it, lists the overrides in force")
    add("column", nargs="?", help="e.g. llc_capacity")
    add("value", nargs="?", type=finite_number, help="in the unit of the matrix")
    add("--reason", help="reason, stored with the override")
    add("--preview", action="store_true", help="show which jobs would change; write nothing")
    add("--withdraw", metavar="ID", help="withdraw this override; 'all' withdraws all of them")


def list_applications(client: BerthClient, args: Namespace) -> int:
    """List applications by name."""
    params = {"q": args.query, "kind": args.kind}
    filters = {name: value for name, value in params.items() if value}
    rows = list(client.pages(APPLICATIONS, filters, args.limit))
    table = columns(
        ("NAME", "KIND", "CREATED", "DESCRIPTION"),
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
    print_result(render(rows, args.output, table))
    return Exit.OK


def show(client: BerthClient, args: Namespace) -> int:
    """Show an application and the state of its profile."""
    response = _read(client, args.application, "")
    response["classification"] = _classification(client, args.application)
    response["overrides"] = _read(client, args.application, "overrides/")["results"]
    print_result(render(response, args.output, facts(_facts(response))))
    return Exit.OK


def _facts(response: Mapping[str, Any]) -> dict[str, Any]:
    profile = response["classification"]
    shown: dict[str, Any] = {
        "name": response["name"],
        "kind": response["kind"],
        "description": response["description"] or None,
        "profile": "none yet: the first job starts profiling",
    }
    if profile is None:
        return shown
    revision_state = "outdated" if profile["is_stale"] else "in force"
    counts = ", ".join(f"{n} {source}" for source, n in profile["sources"].items())
    pending = ", a new one is being inferred" if profile["is_pending"] else ""
    return shown | {
        "profile": f"{profile['number']}{pending}",
        "inferred": f"{profile['created_at']} by {profile['estimator']}",
        "revision": f"{profile['revision']} ({revision_state})",
        "cells": counts,
        "flags": ", ".join(profile["flags"]) or None,
        "drift": _drift(profile["drift"]),
        "overrides": f"{len(response['overrides'])} in force" if response["overrides"] else None,
    }


def _drift(drift: Mapping[str, Any] | None) -> str:
    if drift is None:
        return "no measurements yet"
    since = drift["flagged_seconds"]
    verdict = (
        "predictions are accurate"
        if since is None
        else f"predictions are inaccurate since {since:.0f} s"
    )
    count = drift["observations"]
    return f"{verdict} (mean error {drift['mean_error']:+.1%} over {count} observations)"


def profile(client: BerthClient, args: Namespace) -> int:
    """Show the cells of an application's profile with sources and 90% intervals."""
    response = _read(client, args.application, "classification/")
    rows = [
        (
            *(matrix, part["columns"][i], scaled(part["value"][i])),
            *(scaled(part["low"][i]), scaled(part["high"][i])),
            *(part["unit"][i], part["source"][i], part["samples"][i] or None),
        )
        for matrix, part in response["cells"].items()
        if args.matrix in {None, matrix}
        for i in range(len(part["columns"]))
    ]
    if not rows:
        raise CliError(
            f"matrix {args.matrix} not found",
            code=Exit.NOT_FOUND,
            detail=f"matrices: {', '.join(response['cells'])}",
            next_command="berth matrices",
        )
    headings = ("MATRIX", "COLUMN", "VALUE", "LOW", "HIGH", "UNIT", "SOURCE", "SAMPLES")
    print_result(render(response, args.output, columns(headings, rows)))
    return Exit.OK


def override(client: BerthClient, args: Namespace) -> int:
    """Override a cell of a profile by hand, or withdraw an override."""
    cell = (args.matrix, args.column, args.value)
    if args.withdraw is not None:
        if args.matrix is not None or args.preview:
            raise _usage_error("--withdraw cannot be combined with a matrix or --preview")
        return _withdraw(client, args)
    if args.matrix is None:
        return _list(client, args)
    if None in cell:
        raise _usage_error("MATRIX, COLUMN and VALUE must be given together")
    body = {
        "cells": [{"matrix": args.matrix, "column": args.column, "value": args.value}],
        "reason": args.reason,
    }
    if args.preview:
        body["reason"] = args.reason or "preview"
        return _preview(client, args, body)
    if not args.reason:
        raise _usage_error("--reason is required")
    created = _write(client, "POST", args.application, "overrides/", body)
    print_message("berth: the profile will be updated shortly")
    print_result(render(created, args.output, "\n".join(row["id"] for row in created["results"])))
    return Exit.OK


def _list(client: BerthClient, args: Namespace) -> int:
    rows = _read(client, args.application, "overrides/")["results"]
    shown = [
        (
            *(row["id"], row["matrix"], row["column"], scaled(row["value"]), row["unit"]),
            *(row["created_by"], row["created_at"], row["reason"]),
        )
        for row in rows
    ]
    headings = ("ID", "MATRIX", "COLUMN", "VALUE", "UNIT", "BY", "AT", "REASON")
    print_result(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def _withdraw(client: BerthClient, args: Namespace) -> int:
    which = "" if args.withdraw == "all" else f"{_id(args)}/"
    _write(client, "DELETE", args.application, f"overrides/{which}", None)
    print_message("berth: withdrawn; the profile will be updated shortly")
    return Exit.OK


def _id(args: Namespace) -> UUID:
    try:
        return UUID(args.withdraw)
    except ValueError:
        raise CliError(
            f"{args.withdraw!r} is neither the id of an override nor 'all'",
            code=Exit.USAGE,
            next_command=f"berth app override {args.application}",
        ) from None


def _preview(client: BerthClient, args: Namespace, body: Mapping[str, Any]) -> int:
    response = _write(client, "POST", args.application, "overrides/preview/", body)
    print_result(render(response, args.output, _preview_table(response)))
    return Exit.OK


def _preview_table(response: Mapping[str, Any]) -> str:
    examined, total = response["examined"], response["total"]
    of = f"{examined}" if examined == total else f"the first {examined} of {total}"
    lines = [f"Nothing was written. {response['changed']} of {of} jobs would change."]
    if response["profile"] is None:
        lines.append("The application has no profile yet: overrides apply to its first profile.")
    cells = response["cells"]
    rows = [
        (
            *(cell["matrix"], cell["column"], cell["unit"]),
            *(interval(cell["before"], cell["unit"]), interval(cell["after"], cell["unit"])),
        )
        for cell in cells[:SHOWN_CHANGES]
    ]
    if rows:
        lines += ["", columns(("MATRIX", "COLUMN", "UNIT", "BEFORE", "AFTER"), rows)]
    if len(cells) > SHOWN_CHANGES:
        lines.append(f"{SHOWN_CHANGES} of {len(cells)} cells; -o json shows all")
    if response["jobs"]:
        headings = ("JOB", "NAME", "STATE", "UNITS", "PLATFORMS", "PREDICTED", "SERVERS")
        lines += ["", columns(headings, [_preview_row(job) for job in response["jobs"]])]
    return "\n".join(lines)


def _preview_row(job: Mapping[str, Any]) -> tuple[Any, ...]:
    units, feasible, predicted = job["units"], job["feasible"], job["predicted"]
    now, then = (interval(predicted[when], job["unit"]) for when in ("before", "after"))
    size = _change(units["before"], units["after"] if feasible["after"] else "infeasible")
    return (
        job["id"],
        job["name"],
        job["state"],
        size if job["units_held"] is None else f"{size} (holds {job['units_held']})",
        _platforms(job),
        _change(now, then),
        _servers(job),
    )


def _change(before: Any, after: Any) -> str:
    before = "-" if before is None else before
    return str(before) if before == after else f"{before} -> {after}"


def _platforms(job: Mapping[str, Any]) -> str | None:
    moved = [f"+{name}" for name in job["platforms_gained"]]
    moved += [f"-{name}" for name in job["platforms_lost"]]
    return " ".join(moved) or None


def _servers(job: Mapping[str, Any]) -> str | None:
    """Describe the change in suitable servers, or in acceptability of the servers in use."""
    if job["good_servers"] is not None:
        return f"{_change(job['good_servers']['before'], job['good_servers']['after'])} good"
    parts = []
    for server in job["servers"]:
        before, after = server["acceptable"]["before"], server["acceptable"]["after"]
        if before and not after:
            parts.append(f"{server['server']} too noisy ({server['tightest']})")
        elif after and not before:
            parts.append(f"{server['server']} quiet enough")
    return ", ".join(parts) or None


def _classification(client: BerthClient, key: str) -> Any:
    try:
        return _read(client, key, "classification/")
    except CliError as error:
        if error.code is not Exit.NOT_FOUND:
            raise
        return None


def _read(client: BerthClient, key: str, suffix: str) -> Any:
    return _write(client, "GET", key, suffix, None)


def _write(client: BerthClient, method: str, key: str, suffix: str, body: Any) -> Any:
    address = f"{APPLICATIONS}{quote(key, safe='')}/{suffix}"
    try:
        return client.call(method, address, body=body).body
    except CliError as error:
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth app override {key}"
        raise


def _usage_error(title: str) -> CliError:
    return CliError(
        title,
        code=Exit.USAGE,
        next_command="berth app override --help",
    )
