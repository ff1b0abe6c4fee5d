"""A workload as a model: streams of jobs with an arrival process and classes of jobs."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from apps.common.core.errors import ControlPlaneError
from apps.testbed.core.arrivals import Process, arrivals
from apps.testbed.core.trace_workload import (
    INTEGERS,
    TraceFormat,
    TraceWorkload,
    job_table,
)
from apps.testbed.core.traces import Floats, Ints
from apps.testbed.core.workload_model.distributions import Distribution

QUANTITIES: Final = ("work_s", "seconds", "tasks", "units", "target_s", "unit_memory_bytes",
                     "priority", "gpus")  # fmt: skip
MAX_JOBS: Final = 10_000_000  # of a generated trace


class WorkloadModelError(ControlPlaneError, ValueError):
    """A model, a fit or a knob is invalid; names the part and what is accepted."""


@dataclass(frozen=True, slots=True)
class JobClass:
    """Similar jobs.

    Attributes
    ----------
    name : of the class, and of its application
    kind : of the application, as in `Application.kind`
    weight : share of the jobs of the stream, in any unit
    applications : number of programs that the jobs are drawn from
    has_target : share of jobs with a completion time as target
    quantities : of `QUANTITIES`; a service has no ``work_s``, but ``seconds`` and ``units``
    copula : correlations of the normal scores of the quantities, in their order
    """

    name: str
    kind: str
    weight: float
    quantities: dict[str, Distribution]
    applications: int = 1
    has_target: float = 0.0
    copula: tuple[tuple[float, ...], ...] = ()

    def draw(self, n: int, rng: np.random.Generator) -> dict[str, Floats]:
        """(n,) values of every quantity; ``target_s`` is infinite for jobs without a target."""
        u = self._uniform(n, rng)
        values = {
            name: each.quantile(u[:, i]) for i, (name, each) in enumerate(self.quantities.items())
        }
        for name in INTEGERS & values.keys():
            values[name] = np.rint(values[name])
        target = values.get("target_s", np.full(n, np.inf))
        values["target_s"] = np.where(rng.random(n) < self.has_target, target, np.inf)
        if "work_s" not in values:
            values["work_s"] = np.full(n, np.inf)
        return values

    def _uniform(self, n: int, rng: np.random.Generator) -> Floats:
        """(n, q) uniform scores, correlated by the copula."""
        if not self.copula:
            return rng.random((n, len(self.quantities)))
        values, vectors = np.linalg.eigh(np.array(self.copula))
        normal = rng.normal(size=(n, len(self.quantities)))
        mixed = normal * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        scores: Floats = special.ndtr(mixed)
        return np.minimum(scores, np.nextafter(1.0, 0.0))


@dataclass(frozen=True, slots=True)
class JobStream:
    """Jobs that arrive by one process.

    Attributes
    ----------
    jobs : number of them at scale 1
    start_s, span_s : the process runs from the start for the span
    """

    jobs: int
    span_s: float
    process: Process
    classes: tuple[JobClass, ...]
    start_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkloadModel:
    """A workload to draw from.

    Attributes
    ----------
    source : where it comes from: a trace, or a section of a paper
    notes : what is assumed, one sentence each
    """

    name: str
    source: str
    streams: tuple[JobStream, ...]
    notes: tuple[str, ...] = ()


def generated(
    model: WorkloadModel, seed: int, *, scale: float = 1.0, burst: float = 0.0
) -> TraceWorkload:
    """Draw a trace.

    Parameters
    ----------
    scale : factor on the number of jobs in the same time, > 0
    burst : variance that is added to the relative arrival rate of each minute, >= 0

    Raises
    ------
    WorkloadModelError : a knob is out of range, or no job or too many result.
    """
    if not (np.isfinite(scale) and scale > 0.0 and np.isfinite(burst) and burst >= 0.0):
        raise WorkloadModelError(f"scale must be > 0 and burst >= 0, not {scale:g} and {burst:g}")
    counts = [round(stream.jobs * scale) for stream in model.streams]
    if not 1 <= sum(counts) <= MAX_JOBS:
        raise WorkloadModelError(f"a trace has 1 .. {MAX_JOBS:,} jobs, not {sum(counts):,}")
    seeds = np.random.SeedSequence([seed]).spawn(len(model.streams))
    drawn = [
        _drawn(stream, count, np.random.default_rng(own), burst)
        for stream, count, own in zip(model.streams, counts, seeds, strict=True)
    ]
    return _joined(model, drawn)


Drawn = tuple[Floats, list[str], list[str], dict[str, Floats]]


def _drawn(stream: JobStream, count: int, rng: np.random.Generator, burst: float) -> Drawn:
    """Arrival times, application and kind of each job, and the quantities."""
    times = stream.start_s + arrivals(stream.process, count, stream.span_s, rng, burst=burst)
    weights = np.array([each.weight for each in stream.classes])
    chosen = rng.choice(weights.size, size=count, p=weights / weights.sum())
    columns = {name: np.zeros(count) for name in QUANTITIES}
    columns["seconds"][:], columns["target_s"][:] = np.nan, np.inf
    names, kinds = [""] * count, [""] * count
    for index, each in enumerate(stream.classes):
        rows = np.flatnonzero(chosen == index)
        for name, values in each.draw(rows.size, rng).items():
            columns[name][rows] = values
        programs = rng.integers(each.applications, size=rows.size)
        for row, program in zip(rows.tolist(), programs.tolist(), strict=True):
            names[row] = each.name if each.applications == 1 else f"{each.name}-{program:03d}"
            kinds[row] = each.kind
    return times, names, kinds, columns


def _joined(model: WorkloadModel, drawn: list[Drawn]) -> TraceWorkload:
    times = np.concatenate([each[0] for each in drawn])
    order = np.argsort(times, kind="stable")
    names = [name for each in drawn for name in each[1]]
    kinds = dict(zip(names, (kind for each in drawn for kind in each[2]), strict=True))
    applications = tuple(sorted(kinds))
    index = {name: i for i, name in enumerate(applications)}
    application: Ints = np.array([index[name] for name in names], dtype=np.int64)
    columns = {
        name: np.concatenate([each[3][name] for each in drawn])[order] for name in QUANTITIES
    }
    work_s = columns.pop("work_s")
    return TraceWorkload(
        name=model.name,
        format=TraceFormat.BERTH,
        applications=applications,
        kinds=tuple(kinds[name] for name in applications),
        jobs=job_table(times[order], application[order], work_s, **columns),
        notes=model.notes,
    )
