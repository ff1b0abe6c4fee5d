"""Each trace format as a `TraceWorkload`: the rules are in ``docs/traces.md``."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apps.testbed.core.classes import similarity_classes
from apps.testbed.core.jobs import (
    BLOCK_BYTES,
    BLOCK_SECONDS,
    CLASSES,
    ReplayJob,
    jobs_of,
    slug,
)
from apps.testbed.core.swf import SwfTrace
from apps.testbed.core.trace_workload import TraceFormat, TraceWorkload, job_table
from apps.testbed.core.traces import Floats, Ints, SwimTrace, Trace

ANALYTICS: Final = "analytics"
SEED: Final = 2009  # of the classes of a trace whose jobs have no names
SHORTEST_S: Final = 1.0  # logs count whole seconds


def workload_of_sizes(trace: Trace, seed: int = SEED) -> TraceWorkload:
    """Jobs of a SWIM or Google 2011 trace, by the rules that `run_replay` submits them by."""
    jobs = jobs_of(trace, np.random.default_rng(seed))
    specs = [job.spec for job in jobs]
    names = tuple(sorted({spec["application"] for spec in specs}))
    index = {name: i for i, name in enumerate(names)}
    is_swim = isinstance(trace, SwimTrace)
    return TraceWorkload(
        name=trace.name,
        format=TraceFormat.SWIM if is_swim else TraceFormat.GOOGLE_2011,
        applications=names,
        kinds=(ANALYTICS,) * len(names),
        jobs=job_table(
            np.array([job.submit_s for job in jobs]),
            np.array([index[spec["application"]] for spec in specs]),
            np.array([spec["input_bytes"] * (BLOCK_SECONDS / BLOCK_BYTES) for spec in specs]),
            tasks=[spec["tasks"] for spec in specs],
            target_s=[_target_s(job) for job in jobs],
            priority=[spec["priority"] for spec in specs],
            unit_memory_bytes=[spec["unit_memory_bytes"] for spec in specs],
        ),
        notes=trace.notes,
    )


def _target_s(job: ReplayJob) -> float:
    target: dict[str, float] = job.spec["target"]
    return target.get("seconds", np.inf)


def workload_of_swf(trace: SwfTrace, seed: int = SEED) -> TraceWorkload:
    """Rigid jobs: units are processors, work is processors times run time on the best platform.

    The requested time is the target. Jobs of one executable are one application; where the log
    has none, classes of similar jobs are.
    """
    jobs = trace.jobs
    seconds = np.maximum(jobs.seconds, SHORTEST_S)
    known = trace.executable >= 0
    features = np.log10(np.stack([jobs.processors.astype(np.float64), seconds], axis=1))
    classes = similarity_classes(features, CLASSES, np.random.default_rng(seed))
    label = np.where(known, trace.executable, -1 - classes)
    values, application = np.unique(label, return_inverse=True)
    name = slug(trace.name)
    names = tuple(
        f"{name}-e{value}" if value >= 0 else f"{name}-c{-1 - value:02d}" for value in values
    )
    return TraceWorkload(
        name=trace.name,
        format=TraceFormat.SWF,
        applications=names,
        kinds=(ANALYTICS,) * len(names),
        jobs=job_table(
            jobs.submit_s,
            application,
            jobs.processors * seconds,
            units=jobs.processors,
            seconds=seconds,
            wait_s=trace.wait_s,
            target_s=np.maximum(jobs.estimate_s, seconds),
            queue=trace.queue,
        ),
        notes=trace.notes,
    )


def workload_of_table(
    name: str,
    names: Sequence[str],
    kinds: dict[str, str],
    columns: dict[str, Floats | Ints],
    notes: tuple[str, ...],
) -> TraceWorkload:
    """Jobs as Berth exports them; sorted by submission.

    Raises
    ------
    ValueError : a column is out of range; names it.
    """
    order = np.argsort(columns["submit_s"], kind="stable")
    applications = tuple(sorted(set(names)))
    index = {each: i for i, each in enumerate(applications)}
    late = int(np.count_nonzero(np.diff(columns["submit_s"]) < 0))
    late_note = (f"{late} jobs were out of order; sorted by submit time.",) if late else ()
    return TraceWorkload(
        name=name,
        format=TraceFormat.BERTH,
        applications=applications,
        kinds=tuple(kinds[each] for each in applications),
        jobs=job_table(
            columns["submit_s"][order],
            np.array([index[each] for each in names], dtype=np.int64)[order],
            columns["work_s"][order],
            **{
                key: values[order]
                for key, values in columns.items()
                if key not in ("submit_s", "work_s")
            },
        ),
        notes=(*late_note, *notes),
    )
