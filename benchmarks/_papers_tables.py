"""Tables of `_papers` for the documentation: one row per figure and world."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks._results import Table

ERRORS: Final = ("joint_error", "parallel_error", "parallel_informed_error")
Measured = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


def tables(measured: Measured) -> dict[str, Table]:
    """Return Paragon's figures, Quasar's Table 2 and exhaustive classification, by world."""
    return {
        "paragon": _paragon(measured),
        "quasar": _quasar(measured),
        "exhaustive": _exhaustive(measured),
    }


def _paragon(measured: Measured) -> Table:
    ways = list(next(iter(measured.values()))["paragon"][0]["ours"])
    rows = [["figure, %", "paper's", "world", *ways]]
    for number, figure in enumerate(next(iter(measured.values()))["paragon"]):
        for world, parts in measured.items():
            ours = parts["paragon"][number]["ours"]
            shown = [f"{ours[way]:.1f}" for way in ways]
            rows.append([figure["name"], f"{figure['paper']:.1f}", world, *shown])
    return rows


def _quasar(measured: Measured) -> Table:
    ways = ("2 random", "2 informative", "live")
    rows = [["paper's row", "ours", "classification", "paper's", "world", *ways]]
    for number, entry in enumerate(next(iter(measured.values()))["quasar_table_2"]):
        for world, parts in measured.items():
            ours = parts["quasar_table_2"][number]["ours"]
            # the joint matrix has one way, eight random entries
            shown = [_three(ours[way]) if way in ours else "" for way in ways]
            if "8 random" in ours:
                shown[0] = f"{_three(ours['8 random'])} (8 entries)"
            rows.append(
                [
                    entry["row"],
                    entry["kind"],
                    entry["classification"],
                    _three(entry["paper"]),
                    world,
                    *shown,
                ]
            )
    return rows


def _exhaustive(measured: Measured) -> Table:
    rows = [["world", "estimator", "joint, 8 random", "four parallel, 2 random", "2 chosen"]]
    for world, parts in measured.items():
        for summary in parts["exhaustive"]:
            shown = [f"{100 * summary[key]:.1f} %" for key in ERRORS]
            rows.append([world, summary["estimator"], *shown])
    return rows


def _three(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)
