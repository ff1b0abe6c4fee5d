"""Which short runs an unknown application gets, all copies at once, within a budget of seconds.

Two sizes on the highest-end platform, the first also carrying the microbenchmarks of as many
sources as fit; one on several servers, where the kind of application spreads at all; and other
platforms, and framework settings where there are any, one after the other.

Source: Quasar §3.4 (Q8), Paragon §3.3 (P3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from apps.common.core.interference import SOURCES
from apps.workloads.core.framework import HAS_SETTINGS, LABELS

LEAST_SOURCES: Final = 2  # of each score, carried whatever the budget (P3)
SIZES: Final = (2, 4, 8, 16, 32)  # columns of the scaling matrices beyond the first
SPREADS: Final = frozenset({"analytics", "latency_critical"})  # kinds that use several servers
RUN_S: Final = 22.0  # cluster seconds of one run, set-up included, at most
SOURCE_S: Final = 11.0  # of both ramps of one source: rather more than on average
# Cluster seconds from the start of the copies to the last measurement. Four or five columns a
# matrix are where more of them stop to pay (Quasar §3.2); services, which run for days, get all
# there is time for, small batch jobs the two of the papers (Quasar §3.4: 10-15 s for those, less
# than 5 min for all).
BUDGET_S: Final = MappingProxyType(
    {"latency_critical": 90.0, "analytics": 60.0, "single_node": 60.0, "batch": 45.0}
)
# of a run that must find out what was wrong before: time for all ten sources
THOROUGH_S: Final = RUN_S + SOURCE_S * len(SOURCES)

Ranking = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class PlatformShape:
    """A platform of the cluster: its name, how many servers it has, the cores of each."""

    name: str
    servers: int
    cores: int


def plan(
    kind: str,
    platforms: Sequence[PlatformShape],
    rng: np.random.Generator,
    *,
    order: Ranking | None = None,
    thorough: bool = False,
) -> dict[str, Any]:
    """Choose the runs of one application.

    Parameters
    ----------
    kind : a key of `BUDGET_S`
    platforms : highest-end first; at least one
    order : columns of "scale_up", "scale_out", "heterogeneity", "framework" and "tolerated", the
        most informative first; what it leaves out comes after, at random, as everything without it
        (the papers). A source is always measured for both its matrices.

    thorough : with a budget that leaves no source to be inferred, whatever the kind

    Returns
    -------
    ``{"budget_s", "expected_s", "runs": [{"copy", "platform", "servers", "units", "sources",
    "spare", "by_turns"}, ...]}``, ready for JSON; runs that try a framework setting have its label
    as "setting". Copies work at the same time, the runs of one copy after one another. The first
    run has one unit of the highest-end platform, to which every other is compared; it carries
    ``sources``, which should fit the budget, and then those of ``spare`` for which ramps that
    stopped early left time (`takes_another_source`). ``by_turns`` the first source tells what is
    tolerated of it, the second what is caused, and so on: who puts pressure on a source suffers
    from it, so two sources with one score each tell more than one source with both
    (docs/classification.md). A thorough plan has time for both of all.

    Raises
    ------
    ValueError : unknown kind, or no platform.
    """
    if kind not in BUDGET_S:
        raise ValueError(f"kind must be one of {', '.join(BUDGET_S)}, got {kind!r}")
    if not platforms:
        raise ValueError("an application can only be profiled on a cluster that has servers")
    best, others = platforms[0], platforms[1:]
    budget_s, draw = THOROUGH_S if thorough else BUDGET_S[kind], _Draw(order or {}, rng)
    sources = draw.ranked("tolerated", SOURCES)
    least, each_s = _sources(by_turns=not thorough)
    fitting = max(least, int((budget_s - RUN_S) // each_s))
    first = _run(0, best, sources=sources[:fitting], spare=sources[fitting:])
    runs = [first | {"by_turns": not thorough}]
    up = draw.ranked("scale_up", [str(size) for size in SIZES if size <= best.cores])
    runs += [_run(1, best, units=int(size)) for size in up[:1]]
    if kind in SPREADS:
        out = draw.ranked("scale_out", [str(size) for size in SIZES if size <= best.servers])
        runs += [_run(2, best, servers=int(size)) for size in out[:1]]
    in_turn = max(1, int(budget_s // RUN_S))  # runs of one copy
    shapes = {shape.name: shape for shape in others}
    names = draw.ranked("heterogeneity", list(shapes))[:in_turn]
    runs += [_run(3, shapes[name]) for name in names]
    labels = draw.ranked("framework", LABELS[1:])[:in_turn] if kind in HAS_SETTINGS else []
    runs += [_run(4, best) | {"setting": label} for label in labels]
    rated_s = RUN_S * max(len(names), len(labels))
    longest_s = max(RUN_S + each_s * len(first["sources"]), rated_s)
    return {"budget_s": budget_s, "expected_s": longest_s, "runs": runs}


def takes_another_source(done: int, elapsed_s: float, budget_s: float, *, by_turns: bool) -> bool:
    """Whether a copy that has measured so many sources begins another one.

    A ramp that stopped early leaves time for a source more, one that took long costs one; two of
    each score are always measured.

    Parameters
    ----------
    by_turns : a source is measured for one score only
    """
    least, each_s = _sources(by_turns=by_turns)
    return done < least or elapsed_s + each_s <= budget_s


def _sources(*, by_turns: bool) -> tuple[int, float]:
    """How many sources are measured whatever the budget, and the seconds each takes."""
    return (2 * LEAST_SOURCES, SOURCE_S / 2.0) if by_turns else (LEAST_SOURCES, SOURCE_S)


@dataclass(frozen=True, slots=True)
class _Draw:
    order: Ranking
    rng: np.random.Generator

    def ranked(self, matrix: str, columns: Sequence[str]) -> list[str]:
        """Columns as ranked for a matrix, those that are not ranked after them at random."""
        drawn = [columns[i] for i in self.rng.permutation(len(columns))]
        first = [column for column in self.order.get(matrix, ()) if column in drawn]
        return [*first, *(column for column in drawn if column not in first)]


def _run(
    copy: int,
    platform: PlatformShape,
    *,
    servers: int = 1,
    units: int = 1,
    sources: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "copy": copy,
        "platform": platform.name,
        "servers": servers,
        "units": units,
        "sources": list(sources),
        "spare": list(spare),
    }
