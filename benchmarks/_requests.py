"""Requests of jobs as the running system would make them: with inferred profiles."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from apps.classification.core.inference import Library
from apps.classification.core.profile import Profile
from apps.classification.core.ranking import ranking
from apps.emulation.core.probe import probe
from apps.emulation.core.probe_runs import ProbeRun
from apps.emulation.core.truth import Truth
from apps.inventory.core.demo import PLATFORMS, platform_counts
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.plan import PlatformShape, plan
from apps.testbed.core.offline import JobArrival
from benchmarks._closed_loop import profile_of
from benchmarks._world import cells_of


def shapes_of(servers: int) -> list[PlatformShape]:
    """Return the platforms of a demo cluster as the profiling plan sees them."""
    return [
        PlatformShape(facts.name, count, facts.cores)
        for facts, count in zip(PLATFORMS, platform_counts(servers), strict=True)
    ]


def with_profile(
    job: JobArrival, profile: Profile, tolerance: Callable[[Profile], Floats]
) -> JobArrival:
    """Return the job with the request that a profile leads to."""
    request = replace(
        job.request,
        tolerated=tolerance(profile),
        caused=profile.caused.value,
        platform_speed=profile.platform_speed.value,
    )
    return replace(job, request=request)


def profiled(
    truth: Truth, library: Library, shapes: Sequence[PlatformShape], seed: int
) -> Profile:
    """Profile an application with the live plan: some cells measured, the others inferred."""
    rng = np.random.default_rng([seed, zlib.crc32(truth.name.encode())])
    order = ranking(library, truth.catalogue.names)
    probing = plan(truth.kind, shapes, rng, ranking=order)
    runs = [ProbeRun.of(run) for run in probing["runs"]]
    probed = probe(truth, runs, rng, budget_s=probing["budget_s"])
    return profile_of(truth, cells_of(probed.cells), library, {})
