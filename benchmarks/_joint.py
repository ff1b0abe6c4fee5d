"""Exhaustive classification against the four parallel ones, with as many entries (Q3)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.classification.core.estimators import ESTIMATORS
from apps.classification.core.exhaustive import (
    Combination,
    Parallel,
    combinations,
    fit_joint,
    fold_joint,
)
from apps.classification.core.profile import Profile
from apps.common.core.interference import N_SOURCES, SOURCES
from apps.emulation.core.probe import SERVERS as SERVER_COUNTS
from apps.emulation.core.probe import SIZES
from apps.emulation.core.probe_runs import SAMPLES
from apps.emulation.core.truth import PAPER_CURVES, PAPER_NOISE, Curves, Truth, interference_factor
from apps.inventory.core.snapshot import Bools, Floats
from benchmarks._world import CURVES, World

UNITS: Final = (1, 4, 16)
SERVERS: Final = (1, 4, 16)
PRESSURE: Final = 60.0  # of the microbenchmark next to a disturbed combination
ENTRIES: Final = 8  # as in Quasar's Table 2; one of them is the base

Profiles = Callable[[World], list[Profile]]


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Errors of both methods in combinations that neither measured.

    Attributes
    ----------
    estimator : which both used
    columns : number of combinations
    kinds : (q,) of the applications
    joint, parallel, informed : (q,) mean relative errors; the third of parallel ones whose entries
        were chosen
    cells : q arrays of the joint errors themselves
    fit_s, row_s : seconds of the joint one, to learn a library and to complete one row
    parallel_fit_s, parallel_row_s : the same of the parallel ones
    """

    estimator: str
    columns: int
    kinds: tuple[str, ...]
    joint: Floats
    parallel: Floats
    informed: Floats
    cells: list[Floats]
    fit_s: float
    row_s: float
    parallel_fit_s: float
    parallel_row_s: float

    def errors(self, kind: str) -> Floats:
        """(c,) errors of the joint one for one kind of application."""
        pairs = zip(self.kinds, self.cells, strict=True)
        return np.concatenate([errors for label, errors in pairs if label == kind])

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "estimator": self.estimator,
            "columns": self.columns,
            "entries": ENTRIES,
            "applications": len(self.kinds),
            "joint_error": float(self.joint.mean()),
            "parallel_error": float(self.parallel.mean()),
            "parallel_informed_error": float(self.informed.mean()),
            "joint_fit_s": self.fit_s,
            "joint_row_s": self.row_s,
            "parallel_fit_s": self.parallel_fit_s,
            "parallel_row_s": self.parallel_row_s,
        }

    def __str__(self) -> str:
        return (
            f"{self.estimator:<10} {self.columns} combinations, {ENTRIES} entries: "
            f"joint {self.joint.mean():.1%}, four parallel {self.parallel.mean():.1%} "
            f"(Quasar: 11-17 % and below 8 %), with chosen entries {self.informed.mean():.1%}; "
            f"learn {self.fit_s:.2f} s and {self.parallel_fit_s:.2f} s "
            f"({self.fit_s / self.parallel_fit_s:.1f}x), "
            f"one row {self.row_s * 1e3:.2f} ms and {self.parallel_row_s * 1e3:.2f} ms "
            f"({self.row_s / self.parallel_row_s:.1f}x; Quasar: up to 100x)"
        )


def compared(
    clusters: Sequence[World], profiles: Profiles, informed: Profiles, estimator: str, seed: int
) -> Joint:
    """Complete the combinations of every cluster's new applications both ways.

    Parameters
    ----------
    profiles, informed : of the new applications, from random entries and from chosen ones
    """
    parts = [_on_cluster(cluster, profiles, informed, estimator, seed) for cluster in clusters]
    mean = {
        name: float(np.mean([getattr(part, name) for part in parts]))
        for name in ("fit_s", "row_s", "parallel_fit_s", "parallel_row_s")
    }
    return Joint(
        estimator=estimator,
        columns=parts[0].columns,
        kinds=tuple(kind for part in parts for kind in part.kinds),
        joint=np.concatenate([part.joint for part in parts]),
        parallel=np.concatenate([part.parallel for part in parts]),
        informed=np.concatenate([part.informed for part in parts]),
        cells=[errors for part in parts for errors in part.cells],
        **mean,
    )


def _on_cluster(
    cluster: World, profiles: Profiles, informed: Profiles, estimator: str, seed: int
) -> Joint:
    columns = combinations(cluster.platforms, units=UNITS, servers=SERVERS, sources=SOURCES)
    rng = np.random.default_rng([seed, cluster.library.revision])
    dense = _measured([true_rates(t, columns) for t in cluster.entries.values()], rng)
    truth = np.array([true_rates(t, columns) for t in cluster.new.values()])
    observed, known = _measured(truth, rng), _random(truth, rng)
    began = time.perf_counter()
    model = fit_joint(dense, ESTIMATORS[estimator])
    fold_joint(model, observed[:1], known[:1])
    fitted = time.perf_counter()
    rows = [slice(i, i + 1) for i in range(len(truth))]
    value = np.vstack([fold_joint(model, observed[i], known[i]).value for i in rows])
    folded = time.perf_counter()
    parallel_fit_s, parallel_row_s = _parallel_seconds(cluster, estimator)
    relative = truth / truth[:, :1]
    off = np.abs(value / relative - 1.0)
    others = [
        np.abs(_parallel(cluster, estimates).rates(columns, retained_share) / relative - 1.0)
        for estimates in (profiles(cluster), informed(cluster))
    ]
    joint, parallel, chosen = (
        np.where(known, 0.0, errors).sum(axis=1) / (~known).sum(axis=1)
        for errors in (off, *others)
    )
    return Joint(
        estimator=estimator,
        columns=len(columns),
        kinds=tuple(t.kind for t in cluster.new.values()),
        joint=joint,
        parallel=parallel,
        informed=chosen,
        cells=[errors[~given_cells] for errors, given_cells in zip(off, known, strict=True)],
        fit_s=fitted - began,
        row_s=(folded - fitted) / len(truth),
        parallel_fit_s=parallel_fit_s,
        parallel_row_s=parallel_row_s,
    )


def true_rates(truth: Truth, columns: Sequence[Combination]) -> Floats:
    """(J,) rate of an application at every combination, in its own metric."""
    share = retained_share(truth.tolerated[None], truth.curves)[0]
    rates = [
        truth.platform_speed[truth.catalogue.names.index(c.platform)]
        * truth.scale_up.speed_up(c.units)
        * truth.scale_out.speed_up(c.servers)
        * (share[SOURCES.index(c.source)] if c.source else 1.0)
        for c in columns
    ]
    return truth.metric_per_s * np.array(rates)


def retained_share(tolerated: Floats, curves: Curves = PAPER_CURVES) -> Floats:
    """(q, N) share of its performance retained next to each microbenchmark at `PRESSURE`.

    Profiles have no curves: what they predict is along those of the `paper` world.
    """
    alone = PRESSURE * np.eye(N_SOURCES)
    return interference_factor(alone[None], tolerated[:, None, :], curves)


def _parallel_seconds(cluster: World, estimator: str) -> tuple[float, float]:
    """Seconds to learn the parallel matrices and complete one row; to complete a further row."""
    fit_s = row_s = 0.0
    for name in CURVES:
        dense, rows = cluster.library.matrices[name].values, cluster.observed(name)
        known = (np.arange(rows.shape[1]) < 2) & ~np.isnan(rows)
        began = time.perf_counter()
        model = ESTIMATORS[estimator].fit(dense, scale=name.scale)
        model.fold(rows[:1], known[:1])
        fitted = time.perf_counter()
        for i in range(1, len(rows)):
            model.fold(rows[i : i + 1], known[i : i + 1])
        fit_s += fitted - began
        row_s += (time.perf_counter() - fitted) / (len(rows) - 1)
    return fit_s, row_s


def _measured(rates: Sequence[Floats] | Floats, rng: np.random.Generator) -> Floats:
    """Add the noise of a profiling run, which answers the mean of its samples."""
    exact = np.array(rates)
    noise = rng.lognormal(0.0, PAPER_NOISE.rate, (SAMPLES, *exact.shape)).mean(axis=0)
    return exact * noise


def _random(truth: Floats, rng: np.random.Generator) -> Bools:
    """(q, J) True at the base and at seven random combinations of each row."""
    draw = rng.random(truth.shape)
    draw[:, 0] = -1.0
    known = np.zeros(truth.shape, dtype=np.bool_)
    np.put_along_axis(known, np.argsort(draw, axis=1)[:, :ENTRIES], True, axis=1)
    return known


def _parallel(cluster: World, estimates: Sequence[Profile]) -> Parallel:
    return Parallel(
        platforms=cluster.platforms,
        units=SIZES,
        servers=SERVER_COUNTS,
        sources=SOURCES,
        speed=np.array([profile.platform_speed.value for profile in estimates]),
        up=np.array([profile.scale_up.value for profile in estimates]),
        out=np.array([profile.scale_out.value for profile in estimates]),
        tolerated=np.array([profile.tolerated.value for profile in estimates]),
    )
