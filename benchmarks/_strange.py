"""Intervals and flags of applications that are unlike the library, on the generator.

New rows of five kinds, from 2, 3, 4 and 8 random cells: share of the rows that are flagged
(`far` or `unfamiliar`), share of the hidden cells inside the 90 % intervals, and the same for the
rows without and with a flag. Without the widening, the second number is ``before``.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from apps.classification.core.estimators import DEFAULT, ESTIMATORS, Degraded, Model
from apps.classification.core.estimators.familiarity import NONE
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats
from benchmarks._generated import (
    BOTTLENECK_SPREAD,
    BOTTLENECKS,
    NOISE,
    PLATFORM_SPREAD,
    roofline,
)
from benchmarks._held_out import random_cells
from benchmarks._results import RESULTS, store

SIZES: Final = ((28, 20), (30, 10), (400, 10), (30, 40))  # rows and columns of the library
KNOWN: Final = (2, 3, 4, 8)
ROWS: Final = 60
SEEDS: Final = 4
FLAGS: Final = frozenset({Degraded.FAR, Degraded.UNFAMILIAR})


@dataclass(frozen=True, slots=True)
class StrangeLine:
    """One kind of rows with k known cells, over all sizes and seeds; None without such rows."""

    kind: str
    known: int
    rows: int
    flagged: float
    before: float
    covered: float
    covered_unflagged: float | None
    covered_flagged: float | None

    def __str__(self) -> str:
        """Return the figures in percent."""
        parts = [
            f"{name} {'-' if value is None else f'{value:4.0%}'}"
            for name, value in asdict(self).items()
            if name not in ("kind", "known", "rows")
        ]
        return f"{self.kind:<22} {self.known} cells  {'  '.join(parts)}"


def strange(seed: int, *, quiet: bool, folder: Path = RESULTS) -> dict[str, object]:
    """Return and store the lines of all kinds and numbers of known cells."""
    lines = [line for k in KNOWN for line in _lines(k, seed)]
    if not quiet:
        for line in lines:
            sys.stdout.write(f"{line}\n")
    stored = [asdict(line) for line in lines]
    store(
        "classification-strange",
        arguments={"strange": True, "seed": seed},
        figures=stored,
        tables={"strange": table(lines)},
        folder=folder,
    )
    return {"strange": stored}


def table(lines: Sequence[StrangeLine]) -> list[list[str]]:
    """Return the published table."""

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.0%}".replace("%", " %")

    head = ["rows", "known cells", "flagged", "inside, without widening", "inside"]
    return [
        [*head, "without a flag", "with a flag"],
        *(
            [line.kind, str(line.known)]
            + [
                share(value)
                for value in (
                    line.flagged,
                    line.before,
                    line.covered,
                    line.covered_unflagged,
                    line.covered_flagged,
                )
            ]
            for line in lines
        ),
    ]


def _lines(k: int, seed: int) -> list[StrangeLine]:
    inside: dict[str, list[Floats]] = {}
    before: dict[str, list[Floats]] = {}
    flagged: dict[str, list[Bools]] = {}
    for number in range(SEEDS):
        for size in SIZES:
            rng = np.random.default_rng([seed, number, *size, k])
            library, kinds = new_rows(*size, rng)
            model = ESTIMATORS[DEFAULT].fit(library, scale=Scale.LOG, seed=number)
            plain = ESTIMATORS[DEFAULT].fit(
                library,
                scale=Scale.LOG,
                tunings={k: model.tuned(k)._replace(widening=NONE)},
            )
            for kind, truth in kinds.items():
                observed = truth * rng.lognormal(0.0, NOISE, truth.shape)
                known = random_cells(truth, k, rng)
                inside.setdefault(kind, []).append(_inside(model, truth, observed, known))
                before.setdefault(kind, []).append(_inside(plain, truth, observed, known))
                flags = model.flags(np.where(known, observed, 1.0), known)
                flagged.setdefault(kind, []).append(np.array([bool(x & FLAGS) for x in flags]))
    return [
        _line(kind, k, np.concatenate(flagged[kind]), *map(np.concatenate, (before[kind], rows)))
        for kind, rows in inside.items()
    ]


def _line(kind: str, k: int, flagged: Bools, before: Floats, inside: Floats) -> StrangeLine:
    def mean(values: Floats) -> float | None:
        return float(values.mean()) if values.size else None

    return StrangeLine(
        kind,
        k,
        len(flagged),
        float(flagged.mean()),
        float(before.mean()),
        float(inside.mean()),
        mean(inside[~flagged]),
        mean(inside[flagged]),
    )


def _inside(model: Model, truth: Floats, observed: Floats, known: Bools) -> Floats:
    """(q,) share of the hidden cells inside their intervals."""
    fold = model.fold(np.where(known, observed, 1.0), known)
    inside = (fold.low <= truth) & (truth <= fold.high) & ~known
    return np.asarray(inside.sum(axis=1) / (~known).sum(axis=1))


def new_rows(
    rows: int, columns: int, rng: np.random.Generator
) -> tuple[Floats, Mapping[str, Floats]]:
    """(n, m) measured library, and (q, m) true rows of new applications by kind.

    The capacities of a platform are its level times a factor of each bottleneck. An application
    of other factors depends on bottlenecks with the same levels and other factors; one that is
    unrelated on bottlenecks with other levels, too. The last two kinds have twice the deviation
    from the library's mean, and the square of the speed.
    """
    level = rng.lognormal(0.0, PLATFORM_SPREAD, (1, columns))

    def capacity(of: Floats) -> Floats:
        return of * rng.lognormal(0.0, BOTTLENECK_SPREAD, (BOTTLENECKS, columns))

    known_capacity = capacity(level)
    library = roofline(rows, known_capacity, rng)
    usual = roofline(ROWS, known_capacity, rng)
    mean = np.log(library).mean(axis=0)
    more = roofline(ROWS, known_capacity, rng)
    same_level = np.exp(np.log(known_capacity).mean(axis=0, keepdims=True))
    unrelated = capacity(rng.lognormal(0.0, PLATFORM_SPREAD, (1, columns)))
    return library * rng.lognormal(0.0, NOISE, library.shape), {
        "like the library": usual,
        "other factors": roofline(ROWS, capacity(same_level), rng),
        "unrelated": roofline(ROWS, unrelated, rng),
        "twice as sensitive": np.exp(mean + 2.0 * (np.log(more) - mean)),
        "speed squared": more**2,
    }
