"""What the berth command prints: tables for people, JSON and YAML for programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

FORMATS: Final = ("table", "json", "yaml")


def say(text: str) -> None:
    """Print the answer."""
    sys.stdout.write(text + "\n")


def tell(text: str) -> None:
    """Print what is not the answer, where it does not get in the way of a program."""
    sys.stderr.write(text + "\n")


def render(value: Any, how: str, table: str) -> str:
    """Return a value as JSON or YAML, or the table made of it."""
    if how == "json":
        return json.dumps(value, indent=2, ensure_ascii=False)
    if how == "yaml":
        return "\n".join(_yaml(value, 0))
    return table


def columns(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return rows under headings, aligned; a sentence where there are none."""
    if not rows:
        return "Nothing found."
    texts = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(headings), *texts]) for i in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [list(headings), *texts]
    ]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def facts(pairs: Mapping[str, Any]) -> str:
    """Return names and values, one a line."""
    width = max(len(name) for name in pairs)
    return "\n".join(f"{name.ljust(width)}  {_cell(value)}" for name, value in pairs.items())


def _yaml(value: Any, depth: int) -> list[str]:
    """Return YAML lines; strings are JSON strings, which YAML 1.2 contains."""
    pad = "  " * depth
    if isinstance(value, dict) and value:
        return [
            line for key, inner in value.items() for line in _entry(f"{pad}{key}:", inner, depth)
        ]
    if isinstance(value, list) and value:
        lines = []
        for inner in value:
            nested = _yaml(inner, depth + 1)
            lines += [f"{pad}- {nested[0].lstrip()}", *nested[1:]]
        return lines
    return [pad + json.dumps(value, ensure_ascii=False)]


def _entry(head: str, inner: Any, depth: int) -> list[str]:
    nested = _yaml(inner, depth + 1)
    if isinstance(inner, dict | list) and inner:
        return [head, *nested]
    return [f"{head} {nested[0].lstrip()}"]


def duration(seconds: float | None) -> str:
    """Return a length of time as people say it."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def target(target: Mapping[str, Any]) -> str:
    """Return a target in a few words."""
    match target.get("kind"):
        case "completion_time":
            return f"done in {duration(target['seconds'])}"
        case "throughput_latency":
            return (
                f"{target['qps']:g} qps, p{target.get('percentile', 99):g}"
                f" {target['latency_seconds'] * 1e3:g} ms"
            )
        case "ips":
            return ips(target["ips"])
        case _:
            return "best effort"


def ips(rate: float) -> str:
    """Return a rate of instructions."""
    return f"{rate:.3g} ips"


def percent(share: float | None) -> str:
    """Return a share as a percentage."""
    return "-" if share is None else f"{share:.0%}"


def scaled(value: float | None) -> str:
    """Return a number in three digits, thousands as k, M, G, T."""
    if value is None:
        return "-"
    for size, prefix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{prefix}"
    return f"{value:.3g}"


def interval(cell: Mapping[str, Any] | None, unit: str) -> str:
    """Return a value with its 90 % interval, in its unit; without an interval the value alone."""
    if cell is None:
        return "-"
    shown = duration if unit == "seconds" else scaled
    if cell["low"] is None or cell["high"] is None:
        return shown(cell["value"])
    return f"{shown(cell['value'])} ({shown(cell['low'])} to {shown(cell['high'])})"
