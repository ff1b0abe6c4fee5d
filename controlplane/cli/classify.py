"""berth classify: fill the empty cells of any CSV of measurements; needs no server."""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.matrix_file import MatrixTable, read_matrix
from controlplane.cli.output import render
from controlplane.cli.verbs import Verbs

if TYPE_CHECKING:
    from apps.classification.core.estimates import Estimates
    from apps.classification.core.estimators import Completion, Degraded
    from apps.inventory.core.snapshot import Bools, Floats

HEADINGS: Final = ("row", "column", "value", "low", "high")
NUMBER_WIDTH: Final = 9  # of 1.23e+300


@dataclass(frozen=True, slots=True, eq=False)
class _Result:
    """A completed matrix, the method and the run time."""

    table: MatrixTable
    empty: "Bools"
    completed: "Completion"
    method: str
    seconds: float

    def rows(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the estimates of the empty cells of each row, with flags if degraded."""
        columns = self.table.columns
        for i, row in enumerate(self.table.rows):
            flags = sorted(self.completed.flags[i])
            extra = {"flags": [str(flag) for flag in flags]} if flags else {}
            estimates = self.completed.estimates
            ends = zip(
                *(part[i].tolist() for part in (estimates.value, estimates.low, estimates.high)),
                strict=True,
            )
            cells = zip(columns, self.empty[i].tolist(), ends, strict=True)
            row_cells = [
                {"row": row, "column": name, "value": value, "low": low, "high": high, **extra}
                for name, is_empty, (value, low, high) in cells
                if is_empty
            ]
            if row_cells:
                yield row_cells

    def cells(self) -> Iterator[dict[str, Any]]:
        """Yield the estimates of all empty cells, row by row."""
        return (cell for row in self.rows() for cell in row)


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add_offline("classify", classify, __doc__)
    parser.add_argument(
        "matrix",
        help="CSV file with a row per workload and a column per configuration; - is stdin",
    )
    parser.add_argument("--method", help="estimator; the default has the lowest measured error")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--application",
        choices=["name", "row"],
        default="name",
        help="how rows are grouped: by the first word of their names, or each row by itself",
    )
    better = parser.add_mutually_exclusive_group()
    better.add_argument("--higher-is-better", dest="lower", action="store_false", help="default")
    better.add_argument("--lower-is-better", dest="lower", action="store_true")
    parser.set_defaults(lower=False)


def classify(args: Namespace) -> int:
    """Fill the empty cells of a CSV of measurements, with 90 % intervals; needs no server."""
    if args.seed < 0:
        raise CliError(f"--seed must be at least 0, not {args.seed}", code=Exit.USAGE)
    result = _complete(read_matrix(args.matrix), args)
    if args.output == "json":
        _write_json(result)
    elif args.output == "yaml":
        whole = {"cells": list(result.cells()), "method": result.method, "seconds": result.seconds}
        sys.stdout.write(render(whole, "yaml", "") + "\n")
    else:
        _write_table(result)
    return Exit.OK


def _write_json(result: _Result) -> None:
    """Write row by row, as there may be millions of cells."""
    sys.stdout.write('{"cells": [')
    for number, row in enumerate(result.rows()):
        sys.stdout.write((", " if number else "") + json.dumps(row, ensure_ascii=False)[1:-1])
    method, seconds = json.dumps(result.method), json.dumps(result.seconds)
    sys.stdout.write(f'], "method": {method}, "seconds": {seconds}}}\n')


def _write_table(result: _Result) -> None:
    table = result.table
    if not result.empty.any():
        sys.stdout.write(f"{table.source} has no empty cells.\n")
        return
    widths = [
        max(map(len, ["row", *table.rows])),
        max(map(len, ["column", *table.columns])),
        *[NUMBER_WIDTH] * 3,
    ]
    seen: set[Degraded] = set().union(*result.completed.flags)
    headings = [*HEADINGS, "flags"] if seen else list(HEADINGS)
    sys.stdout.write(_table_line(headings, widths))
    for cell in result.cells():
        values = [f"{cell[name]:.3g}" for name in ("value", "low", "high")]
        flags = ", ".join(cell.get("flags", []))
        sys.stdout.write(_table_line([cell["row"], cell["column"], *values, flags], widths))
    for flag in sorted(seen):
        sys.stdout.write(f"{flag}: {flag.sentence}\n")
    count = int(result.empty.sum())
    sys.stdout.write(
        f"{count} cell{'s' * (count != 1)} by {result.method} in {result.seconds:.2f} s\n"
    )


def _table_line(cells: list[str], widths: list[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
    return "  ".join([*padded, *cells[len(widths) :]]).rstrip() + "\n"


def _complete(table: MatrixTable, args: Namespace) -> _Result:
    # imported here, as numpy and numba take a second
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
            f"unknown method {name!r}", code=Exit.USAGE, detail=f"methods: {', '.join(ESTIMATORS)}"
        )
    values: Floats = np.frombuffer(table.cells).reshape(len(table.rows), len(table.columns))
    empty = np.isnan(values)
    _check_columns(table, empty)
    estimator = ESTIMATORS[name]
    inverted = args.lower and estimator.linear
    groups = applications(table.rows) if args.application == "name" else None
    started = time.perf_counter()
    try:
        completed = completion(
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
        completed = Completion(_runtimes(completed.estimates), completed.flags)
    return _Result(table, empty, completed, name, time.perf_counter() - started)


def _reciprocals(table: MatrixTable, values: "Floats") -> "Floats":
    """Return 1 / runtime, for methods that model performance."""
    import numpy as np  # noqa: PLC0415

    with np.errstate(over="ignore"):
        inverse = 1.0 / values
    wrong = np.argwhere(np.isinf(inverse))
    if wrong.size:
        i, j = wrong[0].tolist()
        raise CliError(
            f"{table.source}, row {table.rows[i]!r}, column {table.columns[j]!r}: "
            f"{values[i, j]:g} is too short for a runtime",
            detail="the method uses 1 / runtime, which must be finite; try another --method",
        )
    return inverse


def _runtimes(performance: "Estimates") -> "Estimates":
    return type(performance)(
        1.0 / performance.value,
        1.0 / performance.high,
        1.0 / performance.low,
        performance.measured,
    )


def _check_columns(table: MatrixTable, empty: "Bools") -> None:
    empty_columns = [name for j, name in enumerate(table.columns) if empty[:, j].all()]
    if empty_columns:
        raise CliError(
            f"{table.source}: column {empty_columns[0]!r} has no measurements",
            detail="a configuration without measurements cannot be estimated; "
            "measure at least one workload there or remove the column",
        )
