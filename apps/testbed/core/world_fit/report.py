"""The report of how well the worlds resemble the measurements, as text and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from apps.emulation.core.worlds import MEASURED, PAPER, World
from apps.inventory.core.snapshot import Floats
from apps.testbed.core.world_fit.compare import ComparedFigure, Interval, compared
from apps.testbed.core.world_fit.groups import GROUPS, Group

WORLDS: Final[tuple[World, ...]] = (MEASURED, PAPER)
DRAWN: Final = 4_000  # values of a distribution that are kept
Parts = Mapping[str, tuple[Floats, Floats]]


@dataclass(frozen=True, slots=True, eq=False)
class GroupReport:
    """The figures of a group, and samples of its distributions by name."""

    group: Group
    figures: tuple[ComparedFigure, ...]
    samples: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class WorldReport:
    """All groups."""

    groups: tuple[GroupReport, ...]

    @property
    def figures(self) -> list[ComparedFigure]:
        """All compared figures."""
        return [figure for group in self.groups for figure in group.figures]

    def outside(self, world: str = MEASURED.name) -> list[ComparedFigure]:
        """Figures of a world that are outside the interval of the held-in measurements."""
        return [f for f in self.figures if not f.held_in.has(f.worlds[world])]


def report(parts: Parts, seed: int) -> WorldReport:
    """Compare the worlds with the measurements; O(minutes)."""
    return WorldReport(tuple(_group(group, parts[group.name], seed) for group in GROUPS))


def _group(group: Group, parts: tuple[Floats, Floats], seed: int) -> GroupReport:
    held_in, held_out = parts
    samples = {"held in": group.drawn(held_in), "held out": group.drawn(held_out)}
    for world in WORLDS:
        samples[world.name] = group.drawn(group.simulate(world, group.kind, held_in, seed))
    thinned = {name: _thinned(values) for name, values in samples.items()}
    return GroupReport(group, tuple(compared(group, parts, list(WORLDS), seed)), thinned)


def _thinned(values: Floats) -> Floats:
    """Evenly spaced values of a sorted sample."""
    order = np.sort(values)
    return order[np.linspace(0, len(order) - 1, min(len(order), DRAWN)).astype(int)]


HEAD: Final = ("figure", "held in", "held out", *(world.name for world in WORLDS), "inside")


def table(figures: Sequence[ComparedFigure]) -> list[tuple[str, ...]]:
    """Rows of text: the figure, its intervals, the worlds, and whether `measured` is inside."""
    return [
        (
            f.figure,
            str(f.held_in),
            "-" if f.held_out is None else str(f.held_out),
            *(f"{f.worlds[world.name]:.3f}" for world in WORLDS),
            "yes" if f.held_in.has(f.worlds[MEASURED.name]) else "NO",
        )
        for f in figures
    ]


def as_text(found: WorldReport) -> str:
    """Tables of all groups."""
    lines = []
    for group in found.groups:
        lines.append(f"{group.group.title} ({', '.join(group.group.sets)})")
        rows = [HEAD, *table(group.figures)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
        lines += [
            "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
    inside, total = len(found.figures) - len(found.outside()), len(found.figures)
    lines.append(f"{inside} of {total} figures of the measured world are inside their interval")
    out, checked = held_out_score(found.figures)
    lines.append(f"{out} of {checked} are inside the interval of the held-out measurements")
    return "\n".join(lines) + "\n"


def held_out_score(figures: Sequence[ComparedFigure]) -> tuple[int, int]:
    """Figures of `measured` inside the held-out interval, and figures that have one."""
    known = [(f.held_out, f.unseen[MEASURED.name]) for f in figures if f.held_out is not None]
    return sum(interval.has(value) for interval, value in known), len(known)


def as_json(found: WorldReport, checksums: Mapping[str, str]) -> dict[str, Any]:
    """Return the report as plain values."""
    return {
        "data": dict(checksums),
        "groups": [
            {
                "name": group.group.name,
                "sets": list(group.group.sets),
                "resampled": group.group.resampled,
                "figures": [_plain(figure) for figure in group.figures],
            }
            for group in found.groups
        ],
        "outside": [f"{f.group}: {f.figure}" for f in found.outside()],
    }


def _plain(figure: ComparedFigure) -> dict[str, Any]:
    inside: Interval = figure.held_in
    return {
        **asdict(figure),
        "is_inside": {world: inside.has(value) for world, value in figure.worlds.items()},
        "is_inside_held_out": None
        if figure.held_out is None
        else {world: figure.held_out.has(value) for world, value in figure.unseen.items()},
    }
