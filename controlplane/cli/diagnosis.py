"""The diagnosis of a job below its target, as text."""

from collections.abc import Mapping
from typing import Any

from controlplane.cli.output import columns, percent


def diagnosis_lines(found: Mapping[str, Any]) -> list[str]:
    """Return the lines of a diagnosis: suspects with evidence, sources and remedies."""
    lines = [f"Below target: {found['summary']}"]
    for suspect in found["suspects"]:
        lines.append(f"  {percent(suspect['confidence']):>4}  {suspect['title']}")
        lines += [
            f"        {'+' if fact['is_for'] else '-'} {fact['text']}"
            for fact in suspect["evidence"]
        ]
    crossed = [row for row in found["pressure"] if row["is_crossed"]]
    if crossed:
        rows = [_pressure_row(row) for row in crossed]
        lines += ["", columns(("SOURCE", "BEFORE", "AT DIP", "TOLERATED"), rows)]
    if found["remedies"]:
        lines += ["", "What would help:"]
        for remedy in found["remedies"]:
            lines += _remedy_lines(remedy)
    return lines


def _pressure_row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    limit = row["tolerated"]
    before = None if row["before"] is None else round(row["before"])
    tolerated = f"{limit['value']:.0f} [{limit['low']:.0f}, {limit['high']:.0f}]"
    return row["source"], before, round(row["at_dip"]), tolerated


def _remedy_lines(remedy: Mapping[str, Any]) -> list[str]:
    """Return a remedy, and the command that carries it out if there is one."""
    chance = remedy["probability_met"]
    met = "" if chance is None else f", meets the target with {percent(chance)}"
    line = f"  {remedy['text']}{met}; {remedy['cost']}"
    migration = ((remedy["action"] or {}).get("body") or {}).get("migration")
    if migration is None:
        return [line]
    names = f"{migration['job']} {migration['from_server']} {migration['to_server']}"
    return [line, f"    berth plan migrate {names}"]
