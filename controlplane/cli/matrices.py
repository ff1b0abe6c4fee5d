"""The verbs for utility matrices: list, show and retrain."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.jobfile import seconds
from controlplane.cli.long_poll import FollowSpec, follow
from controlplane.cli.output import (
    columns,
    duration,
    percent,
    print_message,
    print_result,
    render,
    scaled,
)
from controlplane.cli.verbs import Verbs, argument_type, positive_int

MATRICES: Final = "/api/v1/matrices/"
REVISIONS: Final = "/api/v1/revisions/"
OPERATIONS: Final = "/api/v1/operations/"
RECLASSIFY: Final = "classification.reclassify"
MARKS: Final = {"measured": "", "inferred": "~", "override": "!"}
ENDED: Final = frozenset({"succeeded", "failed", "cancelled"})


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    matrices_parser = verbs.add("matrices", matrices)
    matrices_parser.add_argument(
        "matrix", nargs="?", help="show its cells; default: list all matrices"
    )
    matrices_parser.add_argument("--revision", type=positive_int, help="default: the one in force")
    matrices_parser.add_argument("--row", help="only this application")
    matrices_parser.add_argument(
        "--limit", type=positive_int, default=50, help="max number of rows (50)"
    )
    verbs.add("revisions", revisions).add_argument(
        "--limit", type=positive_int, default=20, help="max number of rows (20)"
    )
    reclassify_parser = verbs.add("reclassify", reclassify)
    reclassify_parser.add_argument(
        "--wait", action="store_true", help="show progress until it ends"
    )
    reclassify_parser.add_argument(
        "--timeout", type=argument_type(seconds), help="time limit of --wait (wall time)"
    )
    reclassify_parser.add_argument(
        "--key", help="Idempotency-Key: repeated requests with the same key start nothing new"
    )


def matrices(client: BerthClient, args: Namespace) -> int:
    """List the utility matrices, or show the cells of one."""
    params = {} if args.revision is None else {"revision": str(args.revision)}
    if args.matrix is None:
        response = _get(client, MATRICES, params, otherwise="berth revisions")
        print_result(render(response, args.output, _matrices_table(response["results"])))
        return Exit.OK
    address = f"{MATRICES}{quote(args.matrix, safe='')}/"
    matrix = _get(client, address, params, otherwise="berth matrices")
    max_cells = args.limit * len(matrix["columns"])
    cell_params = {"revision": str(matrix["revision"])} | ({"row": args.row} if args.row else {})
    cells = list(client.pages(f"{address}cells/", cell_params, max_cells))
    if args.row and not cells:
        raise CliError(
            f"{args.matrix} has no row {args.row}",
            code=Exit.NOT_FOUND,
            next_command=f"berth matrices {args.matrix}",
        )
    print_result(render({**matrix, "cells": cells}, args.output, _matrix_table(matrix, cells)))
    return Exit.OK


def _get(client: BerthClient, address: str, params: dict[str, str], *, otherwise: str) -> Any:
    """Send a GET request; ``otherwise`` is the suggested command on 404."""
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


def revisions(client: BerthClient, args: Namespace) -> int:
    """List the revisions of the matrices, newest first."""
    rows = list(client.pages(REVISIONS, {}, args.limit))
    headings = ("NUMBER", "IN FORCE", "CREATED", "TOOK", "ESTIMATOR", "ROWS", "REASON")
    shown = [
        (
            *(row["number"], "yes" if row["is_current"] else None, row["created_at"]),
            *(duration(row["seconds"]), row["estimator"]),
            max((matrix["row_count"] for matrix in row["matrices"]), default=0),
            row["explanation"],
        )
        for row in rows
    ]
    print_result(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def reclassify(client: BerthClient, args: Namespace) -> int:
    """Retrain the matrices from all measurements."""
    operation = _start(client, args)
    if args.wait:
        operation = _follow_operation(client, operation, args)
    print_result(render(operation, args.output, _outcome(operation)))
    return Exit.FAILED if operation["status"] in {"failed", "cancelled"} else Exit.OK


def _start(client: BerthClient, args: Namespace) -> dict[str, Any]:
    """Start a reclassification; with --wait, follow one that is already running."""
    headers = {"Idempotency-Key": args.key} if args.key else {}
    try:
        started: dict[str, Any] = client.call("POST", REVISIONS, headers=headers).body
    except CliError as error:
        if error.code is not Exit.CONFLICT:
            raise
        error.next_command = "berth reclassify --wait"
        response = client.get(OPERATIONS, kind=RECLASSIFY, status__in="pending,running", limit="1")
        if not args.wait or not response["results"]:
            raise
        running: dict[str, Any] = response["results"][0]
        print_message(f"berth: operation {running['id']} is already running; following it")
        return running
    return started


def _follow_operation(
    client: BerthClient, operation: dict[str, Any], args: Namespace
) -> dict[str, Any]:
    """Follow an operation until it ends; Ctrl-C does not stop the operation."""
    try:
        return _follow(client, operation["id"], args.timeout)
    except KeyboardInterrupt:
        print_message(
            f"\nberth: the reclassification continues as operation {operation['id']}\n"
            f"  try: berth api operations/{operation['id']}/"
        )
        raise


def _follow(client: BerthClient, operation_id: str, timeout_s: float | None) -> dict[str, Any]:
    spec = FollowSpec(
        address=f"{OPERATIONS}{operation_id}/",
        topic="operations",
        subject=operation_id,
        state=lambda operation: str(operation["status"]),
        line=_progress,
        is_over=lambda operation: operation["status"] in ENDED,
        noun="operation",
        next_command=f"berth api operations/{operation_id}/",
    )
    return follow(client, spec, timeout_s=timeout_s, write=print_message)


def _progress(operation: Mapping[str, Any]) -> str:
    if operation["status"] in ENDED:
        return ""
    if operation["status"] == "pending":
        return "waiting for a worker"
    return f"{operation['progress']} of {operation['total']}  {operation['message']}".rstrip()


def _outcome(operation: Mapping[str, Any]) -> str:
    match operation["status"]:
        case "succeeded":
            result = operation["result"]
            count = result["profiles"]
            return f"revision {result['revision']}; {count} profiles will be inferred again"
        case "failed":
            problem = operation["problem"] or {}
            return f"failed: {problem.get('detail') or problem.get('title') or 'no reason given'}"
        case "cancelled":
            return "cancelled; the revision in force is unchanged"
        case _:
            return str(operation["id"])
