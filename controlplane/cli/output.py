"""Output of the berth command: tables, JSON and YAML."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

FORMATS: Final = ("table", "json", "yaml")


def print_result(text: str) -> None:
    """Print the result of a command to stdout."""
    sys.stdout.write(text + "\n")


def print_message(text: str) -> None:
    """Print a message to stderr, separate from the result."""
    sys.stderr.write(text + "\n")


def render(value: Any, format_name: str, table: str) -> str:
    """Return a value as JSON or YAML, or its table."""
    if format_name == "json":
        return json.dumps(value, indent=2, ensure_ascii=False)
    if format_name == "yaml":
        return "\n".join(_yaml(value, 0))
    return table


def columns(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return rows aligned under headings, or a sentence if there are no rows."""
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
    """Return names and values, one pair per line."""
    width = max(len(name) for name in pairs)
    return "\n".join(f"{name.ljust(width)}  {_cell(value)}" for name, value in pairs.items())


def _yaml(value: Any, depth: int) -> list[str]:
    """Return YAML lines; strings are JSON strings, which YAML 1.2 contains."""
    pad = "  " * depth
    if isinstance(value, dict) and value:
        return [
            line for key, item in value.items() for line in _entry(f"{pad}{key}:", item, depth)
        ]
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            nested = _yaml(item, depth + 1)
            lines += [f"{pad}- {nested[0].lstrip()}", *nested[1:]]
        return lines
    return [pad + json.dumps(value, ensure_ascii=False)]


def _entry(head: str, item: Any, depth: int) -> list[str]:
    nested = _yaml(item, depth + 1)
    if isinstance(item, dict | list) and item:
        return [head, *nested]
    return [f"{head} {nested[0].lstrip()}"]


def duration(seconds: float | None) -> str:
    """Return a duration in a unit from us to hours; negative ones with a minus."""
    if seconds is None:
        return "-"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 0.09995:
        return _short_duration(seconds)
    if seconds < 60:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def cluster_day(cluster_s: float) -> str:
    """Return a cluster time with its day, such as "day 2, 14:32"; the first day starts at 0."""
    minutes = int(cluster_s) // 60
    return f"day {minutes // 1440 + 1}, {minutes // 60 % 24:02d}:{minutes % 60:02d}"


def _short_duration(seconds: float) -> str:
    if seconds == 0:
        return "0 s"
    if seconds < 0.0009995:
        return f"{seconds * 1e6:.3g} us"
    return f"{seconds * 1e3:.3g} ms"


def start_text(start: Mapping[str, float | None]) -> str:
    """Return a predicted start from now: p50 and p90, in cluster time; "unknown" without p50."""
    p50, p90 = start["p50_seconds"], start["p90_seconds"]
    if p50 is None:
        return "unknown"
    return f"in {duration(p50)} (p50), {'unknown' if p90 is None else duration(p90)} (p90)"


def target(target: Mapping[str, Any]) -> str:
    """Return a short description of a target."""
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


def work_rate(share: float) -> str:
    """Return a share of the work per second as a multiple of the work per hour."""
    return f"{3600 * share:.3g} times its work per hour"


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share as a percentage."""
    return "-" if share is None else f"{share:.{digits}%}"


def scaled(value: float | None) -> str:
    """Return a number with three digits and a prefix k, M, G or T."""
    if value is None:
        return "-"
    for size, prefix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{prefix}"
    return f"{value:.3g}"


def interval(cell: Mapping[str, Any] | None, unit: str) -> str:
    """Return a value in its unit, with its 90 % interval if it has one."""
    if cell is None:
        return "-"
    shown = {"seconds": duration, "share of the work/s": work_rate}.get(unit, scaled)
    if cell["low"] is None or cell["high"] is None:
        return shown(cell["value"])
    return f"{shown(cell['value'])} ({shown(cell['low'])} to {shown(cell['high'])})"


def requested_guarantee(asked: Mapping[str, Any] | None) -> list[str]:
    """Return the guarantee that a job requests and the R that it needs; empty without one."""
    if asked is None:
        return []
    needed = asked["needed_size"]
    guarantee = f"P(rank below {asked['rank_threshold']:g}) <= {asked['probability']:g}"
    why = "no unit of the top is free"
    if needed is not None:
        why = f"R = {needed:,} with {asked['top_free_share']:.0%} of the top free"
    return [f"  The job requests {guarantee}: {why}; used R = {asked['size']}"]


def job_state(status: Mapping[str, Any]) -> str:
    """Return the state of a job, and whether it is held or suspended."""
    suspension = status.get("suspension") or ("held" if status["held"] else "")
    flag = "suspending" if suspension == "requested" else suspension
    return f"{status['state']} ({flag})" if flag else str(status["state"])
