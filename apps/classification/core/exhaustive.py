"""One matrix over all combinations of resources and placement, to compare with four parallel ones.

Source: Quasar §3.2, "Multiple parallel versus single exhaustive classification" (Q3). A column is
an allocation-assignment vector: units per server, number of servers, platform, and source of
interference. A cell is the rate of work. The four parallel classifications predict the same cells
as a product; J combinations, q rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import Estimates
from apps.classification.core.estimators import Estimator, Model
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats, Ints

NO_SOURCE: Final = ""

# Maps (q, N) tolerated scores to the (q, N) share of performance left under each source's
# microbenchmark
Kept = Callable[[Floats], Floats]


class Combination(NamedTuple):
    """``units`` on each of ``servers`` of a platform, with the microbenchmark of one source."""

    platform: str
    units: int
    servers: int
    source: str = NO_SOURCE

    @property
    def label(self) -> str:
        """Name of the column."""
        interference = f" next to {self.source}" if self.source else ""
        return f"{self.platform} {self.servers}x{self.units}{interference}"


def combinations(
    platforms: Sequence[str],
    *,
    units: Sequence[int],
    servers: Sequence[int],
    sources: Sequence[str] = (),
) -> tuple[Combination, ...]:
    """Return all combinations; the first is the highest-end platform without interference.

    Parameters
    ----------
    platforms : highest-end first
    units, servers : each starting with 1, the reference
    sources : sources of interference; empty = none

    Raises
    ------
    ValueError : an empty list, a repeated entry, or sizes that do not start with 1.
    """
    for name, given in (("platforms", platforms), ("units", units), ("servers", servers)):
        if not given or len(set(given)) < len(given):
            raise ValueError(f"{name} must be a list of distinct entries, got {list(given)}")
    if units[0] != 1 or servers[0] != 1:
        raise ValueError(f"units and servers must start with 1, got {units[0]} and {servers[0]}")
    source_names = (NO_SOURCE, *sources)
    return tuple(
        Combination(platform, u, s, source)
        for source, platform, u, s in product(source_names, platforms, units, servers)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Parallel:
    """Predictions of the four parallel classifications for q rows.

    Attributes
    ----------
    platforms, units, servers, sources : labels of the columns of the four
    speed : (q, P) relative to the highest-end platform
    up : (q, U) speed-up of units of one server over one
    out : (q, S) efficiency of servers relative to linear
    tolerated : (q, N) scores 0-100
    """

    platforms: tuple[str, ...]
    units: tuple[int, ...]
    servers: tuple[int, ...]
    sources: tuple[str, ...]
    speed: Floats
    up: Floats
    out: Floats
    tolerated: Floats

    def rates(self, columns: Sequence[Combination], kept: Kept) -> Floats:
        """(q, J) rate of every combination over that of one unit of the highest-end platform.

        speed · up · servers · out · kept: the four are assumed to be independent, as in Quasar.
        """
        platform = [self.platforms.index(c.platform) for c in columns]
        unit = [self.units.index(c.units) for c in columns]
        server = [self.servers.index(c.servers) for c in columns]
        # the last column is "no interference": the full share
        share = np.concatenate([kept(self.tolerated), np.ones((len(self.tolerated), 1))], axis=1)
        names = (*self.sources, NO_SOURCE)
        source_index = [names.index(c.source) for c in columns]
        count = np.array([c.servers for c in columns], dtype=np.float64)
        alone = self.speed[:, platform] * self.up[:, unit] * self.out[:, server]
        return alone * count * share[:, source_index]


def fit_joint(
    rates: Floats, estimator: Estimator, *, groups: Ints | None = None, seed: int = 0
) -> Model:
    """Fit to (n, J) rates of the library's applications, relative to column 0.

    Raises
    ------
    ValueError, EmptyLibraryError : as `Estimator.fit`; also a row without a rate in column 0.
    """
    return estimator.fit(_relative(rates), scale=Scale.LOG, groups=groups, seed=seed)


def fold_joint(model: Model, rates: Floats, known: Bools) -> Estimates:
    """Complete (q, J) rates, each row relative to its column 0, which must be ``known``."""
    if not known[:, 0].all():
        raise ValueError(
            "column 0 must be known in every row: the other columns are relative to it"
        )
    measured = np.where(known, rates, np.nan)
    return model.fold(np.where(known, _relative(measured), 1.0), known)


def _relative(rates: Floats) -> Floats:
    base = rates[:, :1]
    if np.isnan(base).any():
        row = int(np.flatnonzero(np.isnan(base[:, 0]))[0])
        raise ValueError(f"rates must be known in column 0, row {row} is not")
    return rates / base
