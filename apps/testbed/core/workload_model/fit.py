"""Fit a model to a trace, and compare what it draws with the trace.

Jobs of one kind of application are divided into classes by k-means on the logarithms of their
sizes; k has the smallest Bayesian information criterion of a mixture of axis-parallel log-normal
classes. Each quantity of a class gets a distribution of its own; a Gaussian copula keeps their
rank correlations.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy

from apps.testbed.core.arrival_fit import fit_process, fit_rates, held_out
from apps.testbed.core.arrival_gaps import Gaps, fit_gaps
from apps.testbed.core.arrivals import MINUTE_S
from apps.testbed.core.classes import similarity_classes
from apps.testbed.core.fitting import ks_distance
from apps.testbed.core.jobs import slug
from apps.testbed.core.trace_workload import JobTable, TraceWorkload
from apps.testbed.core.traces import Bools, Floats, Ints
from apps.testbed.core.workload_model.distributions import fitted
from apps.testbed.core.workload_model.model import (
    QUANTITIES,
    JobClass,
    JobStream,
    WorkloadModel,
    WorkloadModelError,
    generated,
)

MAX_CLASSES: Final = 12
SAMPLE: Final = 4_000  # jobs on which k is chosen
SMALLEST_DEVIATION: Final = 0.05  # of a logarithm (base 10): a column may be constant
SMALLEST_SIZE: Final = 1e-3  # of a logarithm: 0 = unknown
DRAWS: Final = 20  # generated traces that are compared with the source


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted model, and the class of each job of its source.

    Attributes
    ----------
    label : (n,) index into the classes of the only stream
    """

    model: WorkloadModel
    label: Ints

    @property
    def classes(self) -> tuple[JobClass, ...]:
        """Classes of the only stream."""
        return self.model.streams[0].classes


def fit(trace: TraceWorkload, rng: np.random.Generator, *, classes: int = 0) -> Fit:
    """Fit a model to a trace.

    Parameters
    ----------
    classes : of each kind of application; 0 = chosen by BIC, at most `MAX_CLASSES`

    Raises
    ------
    WorkloadModelError : fewer than two jobs, or ``classes`` out of range.
    """
    jobs = trace.jobs
    if len(jobs) < 2 or not 0 <= classes <= MAX_CLASSES:
        raise WorkloadModelError(
            f"a fit needs at least 2 jobs and 0 .. {MAX_CLASSES} classes, "
            f"not {len(jobs)} and {classes}"
        )
    label = np.zeros(len(jobs), dtype=np.int64)
    found: list[JobClass] = []
    kinds = np.array(trace.kinds)[jobs.application]
    is_service = np.isinf(jobs.work_s)
    for kind in np.unique(kinds).tolist():
        for service in (False, True):
            rows = np.flatnonzero((kinds == kind) & (is_service == service))
            if not rows.size:
                continue
            own = _classes(_features(jobs, rows), classes, rng)
            label[rows] = len(found) + own
            found += [
                _class(f"{slug(trace.name)}-f{len(found) + c:02d}", str(kind), jobs,
                       rows[own == c])
                for c in range(int(own.max()) + 1)
            ]  # fmt: skip
    span_s = max(float(jobs.submit_s[-1]), MINUTE_S)
    stream = JobStream(len(jobs), span_s, fit_process(jobs.submit_s, span_s), tuple(found))
    source = f"{trace.name} ({trace.format.value}), {len(jobs)} jobs"
    return Fit(WorkloadModel(f"{slug(trace.name)}-fit", source, (stream,)), label)


def _features(jobs: JobTable, rows: Ints) -> Floats:
    """(r, 3) logarithms of the sizes."""
    is_service = bool(np.isinf(jobs.work_s[rows[0]]))
    names = ("seconds" if is_service else "work_s", "tasks", "units")
    columns = [getattr(jobs, name)[rows].astype(np.float64) for name in names]
    return np.log10(np.maximum(np.stack(columns, axis=1), SMALLEST_SIZE))


def _classes(features: Floats, classes: int, rng: np.random.Generator) -> Ints:
    """(r,) classes, of the number with the smallest BIC unless it is given."""
    if classes:
        return similarity_classes(features, classes, rng)
    few = features
    if len(features) > SAMPLE:
        few = features[rng.choice(len(features), SAMPLE, replace=False)]
    scores = [
        (_criterion(few, similarity_classes(few, k, rng)), k)
        for k in range(1, min(MAX_CLASSES, len(few)) + 1)
    ]
    return similarity_classes(features, min(scores)[1], rng)


def _criterion(features: Floats, classes: Ints) -> float:
    """BIC of a mixture of normal classes with independent columns."""
    n, d = features.shape
    parts = []
    for number in range(int(classes.max()) + 1):
        own = features[classes == number]
        mean, deviation = own.mean(axis=0), np.maximum(own.std(axis=0), SMALLEST_DEVIATION)
        density = scipy.stats.norm.logpdf(features, mean, deviation).sum(axis=1)
        parts.append(np.log(len(own) / n) + density)
    likelihood = float(np.logaddexp.reduce(np.stack(parts), axis=0).sum())
    return (len(parts) * (2 * d + 1) - 1) * float(np.log(n)) - 2.0 * likelihood


def _class(name: str, kind: str, jobs: JobTable, rows: Ints) -> JobClass:
    values = {each: getattr(jobs, each)[rows].astype(np.float64) for each in QUANTITIES}
    has_target = np.isfinite(values["target_s"])
    if np.isfinite(values["work_s"]).all():
        del values["seconds"]  # the time that the trace logs; a generated job has none
    known = {each: column[np.isfinite(column)] for each, column in values.items()}
    # a column of zeros is unknown, which is also what a class without it draws
    quantities = {each: fitted(column) for each, column in known.items() if column.any()}
    return JobClass(
        name=name,
        kind=kind,
        weight=float(rows.size),
        quantities=quantities,
        has_target=float(has_target.mean()),
        copula=_copula([values[each] for each in quantities]),
    )


def _copula(columns: list[Floats]) -> tuple[tuple[float, ...], ...]:
    """Correlations of the normal scores of the ranks, over jobs in which all are known."""
    known = np.isfinite(np.stack(columns)).all(axis=0)
    size = len(columns)
    if known.sum() < 3:
        return tuple(map(tuple, np.eye(size).tolist()))
    ranks = np.stack([scipy.stats.rankdata(each[known]) for each in columns])
    scores = scipy.stats.norm.ppf(ranks / (known.sum() + 1.0))
    varies = ranks.std(axis=1) > 0.0
    matrix = np.eye(size)
    if varies.sum() > 1:
        matrix[np.ix_(varies, varies)] = np.corrcoef(scores[varies])
    return tuple(tuple(round(value, 4) for value in row) for row in matrix.tolist())


def distances(trace: TraceWorkload, found: Fit, seed: int) -> list[dict[str, Any]]:
    """Compare a trace with `DRAWS` traces drawn from its fit.

    Returns
    -------
    One row for each class and quantity, and one for the times between arrivals: the
    Kolmogorov-Smirnov distance (mean, 5th and 95th percentile over the draws), and the distance
    that two samples of the same size from one distribution reach in 95 % of cases. Another row
    has the times between arrivals of windows that the process was not fitted to.
    """
    drawn = [generated(found.model, seed + i) for i in range(DRAWS)]
    rows = [_row("all", "time between arrivals", np.diff(trace.jobs.submit_s),
                 [np.diff(each.jobs.submit_s) for each in drawn])]  # fmt: skip
    rows += _held_out_row(trace, found.model.streams[0])
    for index, each in enumerate(found.classes):
        own = found.label == index
        places = [_of(draw, each.name) for draw in drawn]
        for name in each.quantities:
            source = _known(getattr(trace.jobs, name)[own])
            samples = [
                _known(getattr(draw.jobs, name)[place])
                for draw, place in zip(drawn, places, strict=True)
            ]
            rows.append(_row(each.name, name, source, [x for x in samples if x.size]))
    return rows


def _held_out_row(trace: TraceWorkload, stream: JobStream) -> list[dict[str, Any]]:
    """Cross-validation of the arrival process; no row with too few arrivals."""
    fit_again = fit_gaps if isinstance(stream.process, Gaps) else fit_rates
    found = held_out(trace.jobs.submit_s, stream.span_s, fit_again)
    if found is None:
        return []
    return [
        {
            "class": "all",
            "quantity": "time between arrivals, held out",
            "jobs": len(trace),
            "distance": float(found.distance.mean()),
            "low": float(found.distance.min()),
            "high": float(found.distance.max()),
            "same_distribution": float(found.same.mean()),
        }
    ]


def _of(trace: TraceWorkload, name: str) -> Bools:
    if name not in trace.applications:
        return np.zeros(len(trace), dtype=np.bool_)
    found: Bools = trace.jobs.application == trace.applications.index(name)
    return found


def _known(values: Floats | Ints) -> Floats:
    column = values.astype(np.float64)
    return column[np.isfinite(column)]


def _row(name: str, quantity: str, source: Floats, samples: list[Floats]) -> dict[str, Any]:
    found = [ks_distance(source, each) for each in samples] or [float("nan")]
    size = np.mean([each.size for each in samples]) if samples else np.nan
    return {
        "class": name,
        "quantity": quantity,
        "jobs": int(source.size),
        "distance": float(np.mean(found)),
        "low": float(np.quantile(found, 0.05)),
        "high": float(np.quantile(found, 0.95)),
        "same_distribution": float(1.358 * np.sqrt(1.0 / source.size + 1.0 / size)),
    }
