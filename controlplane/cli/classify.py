"""berth classify: fill the empty cells of any CSV of measurements; needs no server."""

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.matrix_file import Table, read_matrix
from controlplane.cli.output import render

if TYPE_CHECKING:
    from apps.classification.core.estimators import Completion, Degraded, Fold
    from apps.inventory.core.snapshot import Bools, Floats

HEADINGS: Final = ("row", "column", "value", "low", "high")
NUMBER_WIDTH: Final = 9  # of 1.23e+300


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """A filled matrix, by which method, and in how many seconds."""

    table: Table
    empty: "Bools"
    done: "Completion"
    method: str
    seconds: float

    def rows(self) -> Iterator[list[dict[str, Any]]]:
        """Estimates of the empty cells of each row; with flags where it is degraded."""
        columns = self.table.columns
        for i, row in enumerate(self.table.rows):
            flags = sorted(self.done.flags[i])
            more = {"flags": [str(flag) for flag in flags]} if flags else {}
            ends = zip(*(part[i].tolist() for part in self.done.fold), strict=True)
            cells = zip(columns, self.empty[i].tolist(), ends, strict=True)
            found = [
                {"row": row, "column": name, "value": value, "low": low, "high": high, **more}
                for name, is_empty, (value, low, high) in cells
                if is_empty
            ]
            if found:
                yield found

    def cells(self) -> Iterator[dict[str, Any]]:
        """Estimates of all empty cells, row by row."""
        return (cell for row in self.rows() for cell in row)


def add_options(parser: ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("matrix", help="CSV: workloads down, configurations across; - is stdin")
    parser.add_argument("--method", help="estimator; the default was chosen by measured error")
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
    if args.seed < 0:
        raise CliError(f"--seed must be at least 0, not {args.seed}", code=Exit.USAGE)
    answer = _answer(read_matrix(args.matrix), args)
    if args.output == "json":
        _write_json(answer)
    elif args.output == "yaml":
        whole = {"cells": list(answer.cells()), "method": answer.method, "seconds": answer.seconds}
        sys.stdout.write(render(whole, "yaml", "") + "\n")
    else:
        _write_table(answer)
    return Exit.OK


def _write_json(answer: _Answer) -> None:
    """Write row by row: there may be millions of cells."""
    sys.stdout.write('{"cells": [')
    for number, row in enumerate(answer.rows()):
        sys.stdout.write((", " if number else "") + json.dumps(row, ensure_ascii=False)[1:-1])
    method, seconds = json.dumps(answer.method), json.dumps(answer.seconds)
    sys.stdout.write(f'], "method": {method}, "seconds": {seconds}}}\n')


def _write_table(answer: _Answer) -> None:
    table = answer.table
    if not answer.empty.any():
        sys.stdout.write(f"{table.source} is full: every cell is measured already.\n")
        return
    widths = [
        max(map(len, ["row", *table.rows])),
        max(map(len, ["column", *table.columns])),
        *[NUMBER_WIDTH] * 3,
    ]
    seen: set[Degraded] = set().union(*answer.done.flags)
    headings = [*HEADINGS, "flags"] if seen else list(HEADINGS)
    sys.stdout.write(_padded(headings, widths))
    for cell in answer.cells():
        values = [f"{cell[name]:.3g}" for name in ("value", "low", "high")]
        flags = ", ".join(cell.get("flags", []))
        sys.stdout.write(_padded([cell["row"], cell["column"], *values, flags], widths))
    for flag in sorted(seen):
        sys.stdout.write(f"{flag}: {flag.sentence}\n")
    count = int(answer.empty.sum())
    sys.stdout.write(f"{count} cells by {answer.method} in {answer.seconds:.2f} s\n")


def _padded(cells: list[str], widths: list[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
    return "  ".join([*padded, *cells[len(widths) :]]).rstrip() + "\n"


def _answer(table: Table, args: Namespace) -> _Answer:
    # numpy and numba take a second to import, which no other verb should pay
    import numpy as np  # noqa: PLC0415

    from apps.classification.core.estimators import (  # noqa: PLC0415
        DEFAULT,
        ESTIMATORS,
        Completion,
        applications,
        completion,
    )
    from apps.classification.core.matrix import Scale  # noqa: PLC0415

    name = args.method or DEFAULT
    if name not in ESTIMATORS:
        raise CliError(
            f"no method {name!r}", code=Exit.USAGE, detail=f"there are {', '.join(ESTIMATORS)}"
        )
    values: Floats = np.frombuffer(table.cells).reshape(len(table.rows), len(table.columns))
    empty = np.isnan(values)
    _check_columns(table, empty)
    estimator = ESTIMATORS[name]
    inverted = args.lower and estimator.linear
    groups = applications(table.rows) if args.application == "name" else None
    started = time.perf_counter()
    try:
        done = completion(
            _reciprocals(table, values) if inverted else values,
            estimator,
            scale=Scale.LOG,
            groups=groups,
            seed=args.seed,
        )
    except ValueError as error:
        raise CliError(
            f"{table.source} cannot be completed by {name}", detail=str(error)
        ) from error
    if inverted:
        done = Completion(_runtimes(done.fold), done.flags)
    return _Answer(table, empty, done, name, time.perf_counter() - started)


def _reciprocals(table: Table, values: "Floats") -> "Floats":
    """Return performance of runtimes, for methods that work on performance itself."""
    import numpy as np  # noqa: PLC0415

    with np.errstate(over="ignore"):
        inverse = 1.0 / values
    wrong = np.argwhere(np.isinf(inverse))
    if wrong.size:
        i, j = wrong[0].tolist()
        raise CliError(
            f"{table.source}, row {table.rows[i]!r}, column {table.columns[j]!r}: "
            f"{values[i, j]:g} is too short a runtime",
            detail="this method works on 1 / runtime, which must be finite; try another --method",
        )
    return inverse


def _runtimes(fold: "Fold") -> "Fold":
    return type(fold)(1.0 / fold.value, 1.0 / fold.high, 1.0 / fold.low)


def _check_columns(table: Table, empty: "Bools") -> None:
    bare = [name for j, name in enumerate(table.columns) if empty[:, j].all()]
    if bare:
        raise CliError(
            f"{table.source}: column {bare[0]!r} has no measurement",
            detail="nothing can be said of a configuration that no workload ran on; "
            "measure one there, or leave the column out",
        )
