"""The verbs about utility matrices: looking at them, and having them learnt anew."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import Client
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.following import Followed, follow
from controlplane.cli.output import columns, duration, percent, render, say, scaled, tell

MATRICES: Final = "/api/v1/matrices/"
REVISIONS: Final = "/api/v1/revisions/"
OPERATIONS: Final = "/api/v1/operations/"
RECLASSIFY: Final = "classification.reclassify"
MARKS: Final = {"measured": "", "inferred": "~", "override": "!"}
ENDED: Final = frozenset({"succeeded", "failed", "cancelled"})


def matrices(client: Client, args: Namespace) -> int:
    """List the utility matrices, or show the cells of one."""
    params = {} if args.revision is None else {"revision": str(args.revision)}
    if args.matrix is None:
        found = _found(client, MATRICES, params, otherwise="berth revisions")
        say(render(found, args.output, _matrices_table(found["results"])))
        return Exit.OK
    address = f"{MATRICES}{quote(args.matrix, safe='')}/"
    matrix = _found(client, address, params, otherwise="berth matrices")
    most = args.limit * len(matrix["columns"])
    wanted = {"revision": str(matrix["revision"])} | ({"row": args.row} if args.row else {})
    cells = list(client.pages(f"{address}cells/", wanted, most))
    if args.row and not cells:
        raise CliError(
            f"{args.matrix} has no row {args.row}",
            code=Exit.NOT_FOUND,
            next_command=f"berth matrices {args.matrix}",
        )
    say(render({**matrix, "cells": cells}, args.output, _matrix_table(matrix, cells)))
    return Exit.OK


def _found(client: Client, address: str, params: dict[str, str], *, otherwise: str) -> Any:
    """Read what may not be there; ``otherwise`` is what to try then."""
    try:
        return client.get(address, **params)
    except CliError as error:
        if error.code is Exit.NOT_FOUND:
            error.next_command = otherwise
        raise


def _matrices_table(rows: Sequence[Mapping[str, Any]]) -> str:
    headings = ("NAME", "UNIT", "ROWS", "LIBRARY", "COLUMNS", "KNOWN", "ERROR", "COVERED")
    return columns(
        (*headings, "REVISION"),
        [
            (
                *(row["name"], row["unit"], row["row_count"], row["library_row_count"]),
                *(len(row["columns"]), percent(row["known_share"])),
                *(_error(row["evaluation"], "average"), _error(row["evaluation"], "covered")),
                row["revision"],
            )
            for row in rows
        ],
    )


def _error(evaluation: Mapping[str, Any] | None, name: str) -> str:
    if not evaluation or name not in evaluation:
        return "-"
    return f"{evaluation[name]:.1%}"


def _matrix_table(matrix: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> str:
    of_row: dict[str, list[str]] = {}
    for cell in cells:
        text = MARKS[cell["source"]] + scaled(cell["value"])
        of_row.setdefault(cell["row"], []).append(text)
    lines = [
        f"{matrix['name']}, {matrix['unit']}, revision {matrix['revision']}"
        f" (~ inferred, ! set by hand)",
        columns(("ROW", *matrix["columns"]), [(name, *row) for name, row in of_row.items()]),
    ]
    if len(of_row) < matrix["row_count"]:
        lines.append(f"{len(of_row)} of {matrix['row_count']} rows")
    return "\n".join(lines)


def revisions(client: Client, args: Namespace) -> int:
    """List the revisions of the matrices, newest first."""
    rows = list(client.pages(REVISIONS, {}, args.limit))
    headings = ("NUMBER", "IN FORCE", "MADE", "TOOK", "ESTIMATOR", "ROWS", "BECAUSE")
    shown = [
        (
            *(row["number"], "yes" if row["is_current"] else None, row["created_at"]),
            *(duration(row["seconds"]), row["estimator"]),
            max((matrix["row_count"] for matrix in row["matrices"]), default=0),
            row["explanation"],
        )
        for row in rows
    ]
    say(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def reclassify(client: Client, args: Namespace) -> int:
    """Have the matrices learnt anew from everything measured."""
    operation = _begun(client, args)
    if args.wait:
        operation = _followed(client, operation, args)
    say(render(operation, args.output, _said(operation)))
    return Exit.FAILED if operation["status"] in {"failed", "cancelled"} else Exit.OK


def _begun(client: Client, args: Namespace) -> dict[str, Any]:
    """Begin a reclassification; with --wait, take up one that runs already."""
    headers = {"Idempotency-Key": args.key} if args.key else {}
    try:
        begun: dict[str, Any] = client.call("POST", REVISIONS, headers=headers).body
    except CliError as error:
        if error.code is not Exit.CONFLICT:
            raise
        error.next_command = "berth reclassify --wait"
        found = client.get(OPERATIONS, kind=RECLASSIFY, status__in="pending,running", limit="1")
        if not args.wait or not found["results"]:
            raise
        running: dict[str, Any] = found["results"][0]
        tell(f"berth: operation {running['id']} is at it already; following that one")
        return running
    return begun


def _followed(client: Client, operation: dict[str, Any], args: Namespace) -> dict[str, Any]:
    """Follow an operation until it ends; interrupted, it goes on without us."""
    try:
        return _follow(client, operation["id"], args.timeout)
    except KeyboardInterrupt:
        tell(
            f"\nberth: the reclassification goes on as operation {operation['id']}\n"
            f"  try: berth api operations/{operation['id']}/"
        )
        raise


def _follow(client: Client, operation_id: str, timeout_s: float | None) -> dict[str, Any]:
    followed = Followed(
        address=f"{OPERATIONS}{operation_id}/",
        topic="operations",
        subject=operation_id,
        state=lambda operation: str(operation["status"]),
        line=_progress,
        is_over=lambda operation: operation["status"] in ENDED,
        noun="operation",
        next_command=f"berth api operations/{operation_id}/",
    )
    return follow(client, followed, timeout_s=timeout_s, write=tell)


def _progress(operation: Mapping[str, Any]) -> str:
    if operation["status"] in ENDED:
        return ""
    if operation["status"] == "pending":
        return "waiting for a worker"
    return f"{operation['progress']} of {operation['total']}  {operation['message']}".rstrip()


def _said(operation: Mapping[str, Any]) -> str:
    match operation["status"]:
        case "succeeded":
            result = operation["result"]
            return f"revision {result['revision']}; {result['profiles']} profiles are drawn anew"
        case "failed":
            problem = operation["problem"] or {}
            return f"failed: {problem.get('detail') or problem.get('title') or 'no reason given'}"
        case "cancelled":
            return "cancelled; the revision in force stays"
        case _:
            return str(operation["id"])
