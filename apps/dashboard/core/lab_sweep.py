"""The settings that a sweep dropped, as the table of a comparison's page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.dashboard.core import formats


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """One setting: after which round it was dropped, and how far it was behind the leader."""

    setting: str
    round: int
    seeds: int
    behind: str
    interval: str
    leader: str


@dataclass(frozen=True, slots=True)
class SweepTable:
    """All dropped settings, the first round first."""

    title: str
    rows: tuple[DroppedRow, ...]
    note: str


def sweep_table(halving: Mapping[str, Any], *, settings: int, runs: int, most: int) -> SweepTable:
    """Return the table.

    Parameters
    ----------
    halving : as `testbed.core.lab_halving.halving_json` returned it
    settings : of the sweep, without the bound
    runs, most : runs that were made, and runs if every setting ran with every seed
    """
    rows = tuple(
        DroppedRow(
            setting=each["setting"],
            round=number,
            seeds=one["seeds"],
            behind=f"{each['interval'][0]:.1f}",
            interval=f"[{each['interval'][1]:.1f}, {each['interval'][2]:.1f}]",
            leader=one["leader"],
        )
        for number, one in enumerate(halving["rounds"], start=1)
        for each in sorted(one["behind"], key=lambda each: -each["interval"][0])
        if each["is_dropped"]
    )
    count = formats.plural(settings, "setting")
    return SweepTable(
        title=f"{len(rows)} of {count} dropped as clearly worse",
        rows=rows,
        note=(
            "Each round doubles the seeds. A setting is dropped if its interval to the leader of"
            " the round excludes zero; the intervals of all rounds hold together with a"
            " probability of 90 %. The baseline always stays."
            f" {formats.thousands(runs)} of {formats.thousands(most)} runs of the full grid."
        ),
    )
