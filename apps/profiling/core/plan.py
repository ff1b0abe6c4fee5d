"""Plan of the short runs that profile an application, within a budget of cluster seconds.

The copies run in parallel: two sizes on the highest-end platform, the first with the
microbenchmarks of as many sources as fit; one run on several servers, if the kind of application
uses several; and other platforms and framework settings in sequence.

Source: Quasar §3.4 and §4.2 (Q8), Paragon §2.3 (P3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from apps.common.core.interference import SOURCES
from apps.workloads.core.framework import HAS_SETTINGS, LABELS

MIN_SOURCES: Final = 2  # min sources per score, independent of the budget (P3)
SIZES: Final = (2, 4, 8, 16, 32)  # columns of the scaling matrices beyond the first
SPREADS: Final = frozenset({"analytics", "latency_critical"})  # kinds that use several servers
RUN_S: Final = 22.0  # max cluster seconds of one run, including set-up
SOURCE_S: Final = 11.0  # of both ramps of one source: slightly above the mean
# Cluster seconds from the start of the copies to the last measurement. Beyond four or five columns
# of a matrix the gain is small (Quasar §3.2). Services run for days and measure as many as fit;
# small batch jobs measure the two of the papers (Quasar §3.4: 10-15 s, less than 5 min for all).
BUDGET_S: Final = MappingProxyType(
    {"latency_critical": 90.0, "analytics": 60.0, "single_node": 60.0, "batch": 45.0}
)
# budget after a misprediction: time for all ten sources
THOROUGH_S: Final = RUN_S + SOURCE_S * len(SOURCES)

ColumnRanking = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class PlatformShape:
    """A platform of the cluster: its name, number of servers, and cores of each server."""

    name: str
    servers: int
    cores: int


def plan(
    kind: str,
    platforms: Sequence[PlatformShape],
    rng: np.random.Generator,
    *,
    ranking: ColumnRanking | None = None,
    thorough: bool = False,
) -> dict[str, Any]:
    """Choose the runs of one application.

    Parameters
    ----------
    kind : a key of `BUDGET_S`
    platforms : highest-end first; at least one
    ranking : columns of "scale_up", "scale_out", "heterogeneity", "framework" and "tolerated", the
        most informative first; unranked columns follow in random order, as in the papers. The
        ranking of "tolerated" also holds for "caused".
    thorough : use a budget that covers every source, for any kind

    Returns
    -------
    ``{"budget_s", "expected_s", "runs": [{"copy", "platform", "servers", "units", "sources",
    "spare", "by_turns"}, ...]}``, ready for JSON; runs that try a framework setting have its label
    as "setting". Copies run in parallel, the runs of one copy in sequence. The first
    run has one unit of the highest-end platform; all others are compared to it. It measures
    ``sources``, which should fit the budget, and then ``spare`` sources if ramps end early
    (`fits_another_source`). With ``by_turns`` it measures the tolerated score of the first
    source, the caused score of the second, and so on: the two scores of a source are correlated,
    so two sources with one score each are more informative than one with both
    (docs/classification.md).
    A thorough plan has time for both scores of all sources.

    Raises
    ------
    ValueError : unknown kind, or no platform.
    """
    if kind not in BUDGET_S:
        raise ValueError(f"kind must be one of {', '.join(BUDGET_S)}, got {kind!r}")
    if not platforms:
        raise ValueError("an application can only be profiled on a cluster that has servers")
    best, others = platforms[0], platforms[1:]
    budget_s, order = THOROUGH_S if thorough else BUDGET_S[kind], _ColumnOrder(ranking or {}, rng)
    sources = order.of("tolerated", SOURCES)
    minimum, each_s = _sources(is_alternating=not thorough)
    fitting = max(minimum, int((budget_s - RUN_S) // each_s))
    first = _run(0, best, sources=sources[:fitting], spare=sources[fitting:])
    runs = [first | {"by_turns": not thorough}]
    sizes = order.of("scale_up", [str(size) for size in SIZES if size <= best.cores])
    runs += [_run(1, best, units=int(size)) for size in sizes[:1]]
    if kind in SPREADS:
        counts = order.of("scale_out", [str(size) for size in SIZES if size <= best.servers])
        runs += [_run(2, best, servers=int(size)) for size in counts[:1]]
    runs_per_copy = max(1, int(budget_s // RUN_S))
    shapes = {shape.name: shape for shape in others}
    names = order.of("heterogeneity", list(shapes))[:runs_per_copy]
    runs += [_run(3, shapes[name]) for name in names]
    labels = order.of("framework", LABELS[1:])[:runs_per_copy] if kind in HAS_SETTINGS else []
    runs += [_run(4, best) | {"setting": label} for label in labels]
    comparisons_s = RUN_S * max(len(names), len(labels))
    longest_s = max(RUN_S + each_s * len(first["sources"]), comparisons_s)
    return {"budget_s": budget_s, "expected_s": longest_s, "runs": runs}


def fits_another_source(
    done: int, elapsed_s: float, budget_s: float, *, is_alternating: bool
) -> bool:
    """Whether a copy that has measured ``done`` sources starts another one.

    Short ramps leave time for more sources, long ones for fewer; at least two of each score are
    always measured.

    Parameters
    ----------
    is_alternating : only one score of each source is measured
    """
    minimum, each_s = _sources(is_alternating=is_alternating)
    return done < minimum or elapsed_s + each_s <= budget_s


def _sources(*, is_alternating: bool) -> tuple[int, float]:
    """Min number of sources to measure, and the cluster seconds of each."""
    return (2 * MIN_SOURCES, SOURCE_S / 2.0) if is_alternating else (MIN_SOURCES, SOURCE_S)


@dataclass(frozen=True, slots=True)
class _ColumnOrder:
    ranking: ColumnRanking
    rng: np.random.Generator

    def of(self, matrix: str, columns: Sequence[str]) -> list[str]:
        """Ranked columns of a matrix, then the unranked ones in random order."""
        shuffled = [columns[i] for i in self.rng.permutation(len(columns))]
        ranked = [column for column in self.ranking.get(matrix, ()) if column in shuffled]
        return [*ranked, *(column for column in shuffled if column not in ranked)]


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
