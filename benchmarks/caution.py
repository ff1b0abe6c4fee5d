"""At which end of its interval a tolerance should be counted on when a job is placed.

    ./dev bench caution [--servers 200] [--loads 0.5,0.7,0.85] [--seed 1]

One-unit jobs of sixty applications, each profiled by the live plan (a few of the ten sources
measured, the others inferred), are placed by what is expected of their tolerance, by the
pessimistic end of its 90 % interval, and by the hidden truth; the same jobs at the same times. For
the jobs of the second half: how fast they ran relative to the same platform without neighbours.
"""

import argparse
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from apps.classification.core.assemble import Library
from apps.classification.core.profile import Profile
from apps.classification.core.ranking import ranking
from apps.emulation.core.probe import ProbeRun, probe
from apps.emulation.core.truth import Truth
from apps.inventory.core.demo import PLATFORMS, platform_counts
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.plan import PlatformShape, plan
from apps.scheduling.core.registry import DEFAULT, make
from apps.testbed.core.offline import Arrival, Offline, Settings
from apps.testbed.core.worlds import World, demo_world
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._closed_loop import profile_of
from benchmarks._world import cells_of
from benchmarks.feedback import offline_library
from benchmarks.policies import CLUSTER_SEED, arrivals

KEPT = 0.95
COUNTED_ON: dict[str, Callable[[Profile], Floats]] = {
    "expected": lambda profile: profile.tolerated,
    "pessimistic": lambda profile: profile.tolerated_low,
}


def main() -> int:
    """Place the same jobs three ways and print what became of them."""
    parser = argparse.ArgumentParser(prog="benchmarks.caution", description=__doc__)
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--loads", default="0.5,0.7,0.85")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    before_ms = calibrate()
    world = demo_world(servers=options.servers, seed=CLUSTER_SEED)
    known = offline_library(world.machines.platforms)
    shapes = [
        PlatformShape(facts.name, count, facts.cores)
        for facts, count in zip(PLATFORMS, platform_counts(options.servers), strict=True)
    ]
    for load in map(float, options.loads.split(",")):
        jobs = arrivals(world, load, np.random.default_rng(options.seed))
        truths = {job.truth.name: job.truth for job in jobs}
        profiles = {n: _profiled(t, known, shapes, options.seed) for n, t in truths.items()}
        for name, counted_on in COUNTED_ON.items():
            asked = [_asked(job, profiles[job.truth.name], counted_on) for job in jobs]
            _say(load, name, _kept(world, asked, options.seed))
        _say(load, "truth", _kept(world, jobs, options.seed))
    sys.stdout.write(f"{calibration_line(before_ms, calibrate())}\n")
    return 0


def _asked(job: Arrival, profile: Profile, counted_on: Callable[[Profile], Floats]) -> Arrival:
    believed = replace(
        job.request,
        tolerated=counted_on(profile),
        caused=profile.caused,
        platform_speed=profile.platform_speed,
    )
    return replace(job, request=believed)


def _kept(world: World, jobs: Sequence[Arrival], seed: int) -> Floats:
    """(n,) speed of the later half of the jobs relative to isolation on the same platform."""
    report = Offline(world, make(DEFAULT), Settings(), seed).run(jobs)
    where = {d.placed.job: d.placed.units[0] for d in report.decisions if d.is_committed}
    platform = world.topology.server_platform[world.topology.unit_server]
    alone = [
        job.work_s / job.truth.platform_speed[platform[where[job.request.job]]] for job in jobs
    ]
    ran = [record.ended_s - record.started_s for record in report.jobs]
    return (np.array(alone) / np.array(ran))[len(jobs) // 2 :]


def _say(load: float, name: str, kept: Floats) -> None:
    shares = f"at least 0.95: {(kept >= KEPT).mean():4.0%}  mean {kept.mean():.3f}"
    ends = f"p10 {np.quantile(kept, 0.1):.3f}  p1 {np.quantile(kept, 0.01):.3f}"
    sys.stdout.write(f"load {load:.2f}  tolerance {name:<12} {shares}  {ends}\n")
    sys.stdout.flush()


def _profiled(truth: Truth, known: Library, shapes: Sequence[PlatformShape], seed: int) -> Profile:
    """Profile an application by the live plan: some cells measured, the others inferred."""
    rng = np.random.default_rng([seed, zlib.crc32(truth.name.encode())])
    order = ranking(known, truth.catalogue.names)
    wanted = plan(truth.kind, shapes, rng, order=order)
    runs = [ProbeRun.of(run) for run in wanted["runs"]]
    found = probe(truth, runs, rng, budget_s=wanted["budget_s"])
    return profile_of(truth, cells_of(found.cells), known, {})


if __name__ == "__main__":
    raise SystemExit(main())
