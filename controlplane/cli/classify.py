"""berth classify: fill the empty cells of any CSV of measurements; needs no server."""

import csv
import json
import math
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import columns

if TYPE_CHECKING:
    from apps.classification.core.estimators import Fold
    from apps.inventory.core.snapshot import Floats

EMPTY: Final = frozenset({"", "nan", "na", "null", "-"})


class Table(NamedTuple):
    """A CSV: row and column names, and cells, NaN where empty."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[float, ...], ...]


def add_options(parser: ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("matrix", help="CSV: workloads down, configurations across; - is stdin")
    parser.add_argument("--method", help="estimator; the default was chosen by measured error")
    parser.add_argument("--json", action="store_true", help="the same as -o json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--application",
        choices=["name", "row"],
        default="name",
        help="rows whose names start with the same word are one application, or each is its own",
    )
    better = parser.add_mutually_exclusive_group()
    better.add_argument("--higher-is-better", dest="lower", action="store_false", help="default")
    better.add_argument("--lower-is-better", dest="lower", action="store_true")
    parser.set_defaults(lower=False)


def classify(args: Namespace) -> int:
    """Fill the empty cells of a CSV of measurements, with 90 % intervals; needs no server."""
    table = _table(args.matrix)
    started = time.perf_counter()
    method, fold = _completed(table, args)
    seconds = time.perf_counter() - started
    cells = [
        {
            "row": row,
            "column": column,
            "value": float(fold.value[i, j]),
            "low": float(fold.low[i, j]),
            "high": float(fold.high[i, j]),
        }
        for i, row in enumerate(table.rows)
        for j, column in enumerate(table.columns)
        if math.isnan(table.cells[i][j])
    ]
    if args.json or args.output == "json":
        answer = {"cells": cells, "method": method, "seconds": seconds}
        sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
        return Exit.OK
    headings = ["row", "column", "value", "low", "high"]
    sys.stdout.write(columns(headings, [list(cell.values()) for cell in cells]) + "\n")
    sys.stdout.write(f"{len(cells)} cells by {method} in {seconds:.2f} s\n")
    return Exit.OK


def _completed(table: Table, args: Namespace) -> tuple[str, "Fold"]:
    # numpy and numba take a second to import, which no other verb should pay
    import numpy as np  # noqa: PLC0415

    from apps.classification.core.estimators import (  # noqa: PLC0415
        DEFAULT,
        ESTIMATORS,
        applications,
        complete,
    )
    from apps.classification.core.matrix import Scale  # noqa: PLC0415

    name = args.method or DEFAULT
    if name not in ESTIMATORS:
        raise CliError(
            f"no method {name!r}", code=Exit.USAGE, detail=f"there are {', '.join(ESTIMATORS)}"
        )
    values: Floats = np.array(table.cells, dtype=np.float64)
    _check_columns(table, values)
    estimator = ESTIMATORS[name]
    inverted = args.lower and estimator.linear
    groups = applications(table.rows) if args.application == "name" else None
    try:
        fold = complete(
            1.0 / values if inverted else values,
            estimator,
            scale=Scale.LOG,
            groups=groups,
            seed=args.seed,
        )
    except ValueError as error:
        raise CliError("the matrix cannot be completed", detail=str(error)) from error
    if inverted:
        fold = type(fold)(1.0 / fold.value, 1.0 / fold.high, 1.0 / fold.low)
    return name, fold


def _check_columns(table: Table, values: "Floats") -> None:
    for j, column in enumerate(table.columns):
        if all(math.isnan(row[j]) for row in table.cells):
            raise CliError(
                f"column {column!r} has no measurement",
                detail="nothing can be said of a configuration that no workload ran on",
            )
    if not len(values):
        raise CliError("the matrix has no row")


def _table(path: str) -> Table:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"cannot read {path}", detail=str(error)) from error
    lines = [line for line in csv.reader(text.splitlines()) if any(cell.strip() for cell in line)]
    if len(lines) < 2 or len(lines[0]) < 2:
        raise CliError(
            f"{path} holds no matrix",
            detail="the first line names the configurations, every other line is one workload",
        )
    names = tuple(lines[0][1:])
    rows = tuple(line[0] for line in lines[1:])
    cells = tuple(_cells(line, names, number) for number, line in enumerate(lines[1:], start=2))
    return Table(rows, names, cells)


def _cells(line: list[str], names: tuple[str, ...], number: int) -> tuple[float, ...]:
    if len(line) != len(names) + 1:
        raise CliError(
            f"line {number} has {len(line)} cells",
            detail=f"the first line has {len(names) + 1}; workload {line[0]!r}",
        )
    return tuple(_cell(text, line[0], name) for text, name in zip(line[1:], names, strict=True))


def _cell(text: str, row: str, column: str) -> float:
    if text.strip().lower() in EMPTY:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise CliError(
            f"row {row!r}, column {column!r}: {text!r} is no measurement",
            detail="performance and runtimes are positive numbers; leave out what failed",
        )
    return value
