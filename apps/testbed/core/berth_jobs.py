"""Jobs as Berth exports them: JSON Lines or the rows of a Parquet table.

A row has the keys of `SCHEMA`. Null is unknown: no target, not started, no logged time. A row with
``work_s`` null is a service, which runs for ``seconds`` on ``units``.
"""

import json
import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from apps.testbed.core.text_table import LARGEST, Line, SkippedLines, shorten
from apps.testbed.core.trace_jobs import workload_of_table
from apps.testbed.core.trace_workload import COLUMNS, INTEGERS, TraceWorkload
from apps.testbed.core.traces import TraceError

NUMBERS: Final = tuple(column for column in COLUMNS if column != "application")
REQUIRED: Final = ("application", "submit_s", "work_s")
SCHEMA: Final[dict[str, type]] = {"application": str, "kind": str} | {
    name: int if name in INTEGERS else float for name in NUMBERS
}
# what null means
UNKNOWN: Final[dict[str, float]] = {
    "work_s": math.inf, "target_s": math.inf, "seconds": math.nan, "wait_s": math.nan,
}  # fmt: skip
KINDS: Final = ("analytics", "latency_critical", "single_node", "batch")
LEFT_OUT: Final = frozenset({"queue"})  # if 0, so that the digests of older plans hold
MUST_BE_POSITIVE: Final = frozenset({"work_s", "target_s"})
MAY_BE_NEGATIVE: Final = frozenset({"priority"})

Row = tuple[int, Any]  # number in the file and JSON value


def berth_lines(trace: TraceWorkload) -> Iterator[str]:
    """Yield a JSON object for each job."""
    for row in berth_rows(trace):
        yield json.dumps(row, allow_nan=False, separators=(",", ":"))


def berth_rows(trace: TraceWorkload) -> Iterator[dict[str, Any]]:
    """Yield the values of each job."""
    columns = [getattr(trace.jobs, name) for name in NUMBERS]
    for index, application in enumerate(trace.jobs.application.tolist()):
        row: dict[str, Any] = {
            "application": trace.applications[application],
            "kind": trace.kinds[application],
        }
        for name, values in zip(NUMBERS, columns, strict=True):
            value = values[index].item()
            if value or name not in LEFT_OUT:
                row[name] = value if math.isfinite(value) else None
        yield row


def parse_json_lines(
    lines: Iterable[Line], *, path: str, name: str, skipped: SkippedLines
) -> TraceWorkload:
    """Read JSON Lines.

    Raises
    ------
    TraceError : a line is malformed and ``skipped`` does not take it, or no job is left.
    """
    return _read(((number, text) for number, text in lines), path, name, skipped)


def parse_rows(rows: Iterable[Row], *, path: str, name: str, strict: bool) -> TraceWorkload:
    """Read rows of a table, such as Parquet.

    Raises
    ------
    TraceError : a row is malformed and ``strict``, or more are malformed than not.
    """
    skipped = SkippedLines(strict=strict)
    found = _read(rows, path, name, skipped)
    return replace(found, skipped=skipped.count, problems=tuple(skipped.first))


def _read(rows: Iterable[Row], path: str, name: str, skipped: SkippedLines) -> TraceWorkload:
    columns = {column: array("d") for column in NUMBERS}
    applications, kinds, unknown = _Names(), dict[str, str](), set[str]()
    for number, content in rows:
        try:
            row = _object(content, path, number)
            values = [_value(row, column, path, number) for column in NUMBERS]
            application, kind = _text(row, "application", path, number), _kind(row, path, number)
            _check_keys(row, path, number, unknown, skipped)
            _check_service(row, path, number)
            if kinds.setdefault(application, kind) != kind:
                detail = f"application {shorten(application)} is {kinds[application]} elsewhere"
                raise TraceError(path, number, detail)  # noqa: TRY301
        except TraceError as error:
            skipped.skip(error)
            continue
        applications.add(application)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    if skipped.count:
        skipped.check(len(applications.index))
    if not applications.index:
        raise TraceError(path, 0, "no jobs")
    notes = (f"unknown keys {', '.join(sorted(unknown))} ignored.",) if unknown else ()
    arrays = {column: np.array(values) for column, values in columns.items()}
    return workload_of_table(name, applications.all(), kinds, arrays, notes)


class _Names:
    """Names of many rows, each distinct one stored once."""

    def __init__(self) -> None:
        self.index = array("q")
        self._numbers: dict[str, int] = {}

    def add(self, name: str) -> None:
        """Append the name of a row."""
        self.index.append(self._numbers.setdefault(name, len(self._numbers)))

    def all(self) -> list[str]:
        """Name of each row."""
        names = list(self._numbers)
        return [names[i] for i in self.index]


def _object(content: Any, path: str, number: int) -> dict[str, Any]:
    row = content
    if isinstance(content, str):
        try:
            row = json.loads(content)
        except (json.JSONDecodeError, RecursionError) as error:
            detail = f"is not JSON ({error}); expected an object for each job"
            raise TraceError(path, number, detail) from None
    if not isinstance(row, dict):
        raise TraceError(path, number, f"is {shorten(str(row))}; expected an object for each job")
    if missing := [key for key in REQUIRED if key not in row]:
        raise TraceError(path, number, f"no {', '.join(missing)}")
    return row


def _value(row: dict[str, Any], column: str, path: str, number: int) -> float:
    value: Any = row.get(column)
    if value is None and column != "submit_s":
        return UNKNOWN.get(column, 0.0)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    lowest = -LARGEST if column in MAY_BE_NEGATIVE else 0
    is_zero_refused = column in MUST_BE_POSITIVE
    if not is_number or not lowest <= value <= LARGEST or (is_zero_refused and not value):
        bound = "> 0" if is_zero_refused else f">= {lowest:g}"
        detail = f"{column} is {shorten(str(value))}; expected a number {bound}"
        raise TraceError(path, number, detail)
    if column in INTEGERS and value != int(value):
        raise TraceError(path, number, f"{column} is {value}; expected a whole number")
    return float(value)


def _text(row: dict[str, Any], key: str, path: str, number: int) -> str:
    value = row[key]
    if not isinstance(value, str) or not value.strip():
        raise TraceError(path, number, f"{key} is {shorten(str(value))}; expected a name")
    return value


def _kind(row: dict[str, Any], path: str, number: int) -> str:
    kind: str = row.get("kind", KINDS[0])
    if kind not in KINDS:
        detail = f"kind is {shorten(str(kind))}; expected one of {', '.join(KINDS)}"
        raise TraceError(path, number, detail)
    return kind


def _check_keys(
    row: dict[str, Any], path: str, number: int, unknown: set[str], skipped: SkippedLines
) -> None:
    extra = row.keys() - SCHEMA.keys()
    if extra and skipped.strict:
        raise TraceError(path, number, f"unknown key {', '.join(map(shorten, sorted(extra)))}")
    unknown |= extra


def _check_service(row: dict[str, Any], path: str, number: int) -> None:
    if row["work_s"] is None and not (row.get("units") and row.get("seconds")):
        raise TraceError(
            path, number, "work_s is null (a service), so units and seconds are needed"
        )
