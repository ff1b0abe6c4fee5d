"""Effect of telemetry: prediction errors over the jobs of an application, and drift.

    ./dev bench feedback [--servers 200] [--applications 40] [--load 0.7] [--seed 1]

Jobs of applications that were profiled once share the emulated cluster, offline. Their rates are
predicted from the first profile, and from a profile that is inferred again whenever feedback
records new cells. The second part looks for drift in the same runs, unchanged and with a speed
that changes half-way. The third part sizes jobs with and without feedback.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from apps.classification.core.drift import cusum, mean_run_length
from apps.classification.core.feedback import (
    Belief,
    CellKey,
    Observation,
    cells_to_record,
    predict,
    prior_belief,
    update_belief,
)
from apps.classification.core.inference import Library
from apps.classification.core.matrix import Cell, MatrixName, columns_of, from_cells
from apps.emulation.core.draws import ANALYTICS, BATCH, SINGLE_NODE
from apps.emulation.core.library import library
from apps.emulation.core.probe import probe
from apps.emulation.core.probe_runs import ProbeRun
from apps.emulation.core.truth import Truth
from apps.emulation.core.worlds import MEASURED, WORLDS, world_named
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Within
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster, exact_request
from apps.testbed.core.offline import AgentSettings, JobArrival, OfflineRun
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._closed_loop import ClosedLoop, TrackedApplication, observation_of, profile_of
from benchmarks._world import cells_of

CLUSTER_SEED = 2015
KINDS = (ANALYTICS, SINGLE_NODE, BATCH)
UNITS = (1, 1, 2, 4, 8)
MEAN_WORK_S = 600.0  # of one unit
MEAN_SPEED = 0.7
BUCKETS = (0, 1, 3, 6, 11, 21, 41)  # rows of the table: lower limits of the earlier jobs
CHANGED_SPEED = 0.7  # the speed of an application that changes, relative to before


@dataclass(frozen=True, slots=True, eq=False)
class ProfiledApplication:
    """True behaviour, measured cells and observations (oldest first) of one application."""

    truth: Truth
    cells: tuple[Cell, ...]
    observations: list[Observation]


def offline_library(cluster: DemoCluster) -> Library:
    """Profile the library of the cluster."""
    platforms = cluster.machines.platforms
    entries = library(CLUSTER_SEED, platforms, world=cluster.world)
    rows = {entry.application: cells_of(entry.cells) for entry in entries}
    names = platforms.names
    return Library(
        1, {name: from_cells(name, columns_of(name, names), rows) for name in MatrixName}
    )


def draw_applications(
    world: DemoCluster, count: int, rng: np.random.Generator
) -> list[ProfiledApplication]:
    """Draw applications that are profiled only with the four runs of Quasar §3.4."""
    platforms = world.machines.platforms
    applications = []
    for i in range(count):
        truth = world.world.application_truth(CLUSTER_SEED, f"app{i}", KINDS[i % 3], platforms)
        best, *others = platforms.names
        runs = [
            ProbeRun(best, 1, 1),
            ProbeRun(best, 1, int(rng.choice((2, 4, 8)))),
            ProbeRun(best, int(rng.choice((2, 4, 8))), 1),
            ProbeRun(str(rng.choice(others)), 1, 1),
        ]
        applications.append(
            ProfiledApplication(truth, tuple(cells_of(probe(truth, runs, rng).cells)), [])
        )
    return applications


def run_jobs(
    world: DemoCluster, applications: Sequence[ProfiledApplication], options: argparse.Namespace
) -> None:
    """Run jobs of all applications together; append the observations of each."""
    rng = np.random.default_rng(options.seed)
    unit_seconds = MEAN_WORK_S * float(np.mean(UNITS))
    rate = options.load * float(world.topology.server_units.sum()) * MEAN_SPEED / unit_seconds
    total = options.applications * options.jobs
    times = np.cumsum(rng.exponential(1.0 / rate, total))
    chosen = rng.integers(len(applications), size=total)
    jobs = []
    for n, (at, i) in enumerate(zip(times.tolist(), chosen.tolist(), strict=True)):
        units = int(rng.choice(UNITS))
        work = (float(rng.exponential(MEAN_WORK_S)) + 60.0) * units
        request = exact_request(applications[i].truth, str(n), units=units)
        together = applications[i].truth.kind != ANALYTICS and units > 1
        placed_request = replace(request, gang=True, locality=Within.SERVER if together else None)
        jobs.append(JobArrival(at, placed_request, applications[i].truth, work))
    report = OfflineRun(world, make("tarcil"), AgentSettings(), options.seed).run(jobs)
    placed = {d.placed.job: d.placed for d in report.decisions if d.is_committed}
    order = np.argsort([record.ended_s for record in report.jobs])
    for n in order.tolist():
        record, job = report.jobs[n], jobs[n]
        rate = job.work_s * job.truth.bytes_per_s / (record.ended_s - record.started_s)
        applications[chosen[n]].observations.append(observation_of(world, placed[str(n)], rate))


def errors_of(
    application: ProfiledApplication, known_library: Library
) -> tuple[Floats, Floats, int]:
    """(k,) prediction errors without and with feedback, and the number of inferred profiles."""
    first = profile_of(application.truth, application.cells, known_library, {})
    before, now, written = prior_belief(first), first, dict[CellKey, Cell]()
    plain, fed, refits = [], [], 0
    for k, observation in enumerate(application.observations):
        plain.append(_error(prior_belief(first), observation))
        fed.append(_error(prior_belief(now), observation))
        after = update_belief(before, application.observations[: k + 1]).belief
        cells = cells_to_record(before, after, written)
        if cells:
            written |= {CellKey(cell.matrix, cell.column): cell for cell in cells}
            now = profile_of(application.truth, application.cells, known_library, written)
            refits += 1
    return np.array(plain), np.array(fed), refits


def flagged_after(
    observations: Sequence[Observation], before: Belief, *, changes_at: int
) -> int | None:
    """Return the number of jobs from the change until the flag; None if it is never raised."""
    for k in range(1, len(observations) + 1):
        belief = update_belief(before, observations[:k])
        if cusum(belief.innovations, belief.errors).is_flagged:
            return k - changes_at
    return None


def show_errors(applications: Sequence[ProfiledApplication], known_library: Library) -> None:
    """Print prediction errors by the number of earlier jobs."""
    buckets: dict[int, list[tuple[float, float]]] = defaultdict(list)
    refits = Counter[int]()
    for application in applications:
        plain, fed, profiles = errors_of(application, known_library)
        refits[0] += profiles
        for k, pair in enumerate(zip(plain.tolist(), fed.tolist(), strict=True)):
            buckets[max(step for step in BUCKETS if step <= k)].append(pair)
    sys.stdout.write("earlier jobs | predictions | mean |error| as profiled, with feedback | ")
    sys.stdout.write("90th percentile of both\n")
    for step in sorted(buckets):
        pairs = np.abs(np.array(buckets[step]))
        (a, b), (c, d) = pairs.mean(axis=0), np.quantile(pairs, 0.9, axis=0)
        sys.stdout.write(f"{step:>4}+ | {len(pairs)} | {a:.3f} {b:.3f} | {c:.3f} {d:.3f}\n")
    jobs = sum(len(application.observations) for application in applications)
    sys.stdout.write(f"{refits[0]} profiles inferred again for {jobs} jobs\n")


def show_drift(applications: Sequence[ProfiledApplication], known_library: Library) -> None:
    """Print the numbers of flagged applications, unchanged and changed half-way."""
    false, observations, delays, missed = 0, 0, [], 0
    deviations = []
    for application in applications:
        before = prior_belief(profile_of(application.truth, application.cells, known_library, {}))
        innovations = update_belief(before, application.observations).innovations
        deviations.append(innovations)
        at = flagged_after(application.observations, before, changes_at=0)
        false += at is not None
        observations += len(application.observations) if at is None else at
        half = len(application.observations) // 2
        slower = [
            replace(observation, rate=CHANGED_SPEED * observation.rate)
            for observation in application.observations[half:]
        ]
        changed = [*application.observations[:half], *slower]
        late = flagged_after(changed, before, changes_at=half)
        if late is None:
            missed += 1
        elif late > 0:
            delays.append(late)
    z = np.concatenate(deviations)
    sys.stdout.write(
        f"innovations: mean {z.mean():+.2f}, deviation {z.std():.2f}, beyond 3: "
        f"{np.mean(np.abs(z) > 3):.1%}\n"
        f"unchanged: {false} of {len(applications)} flagged in {observations} observations "
        f"(mean run length in theory {mean_run_length():.0f})\n"
        f"changed to {CHANGED_SPEED} of the speed: {len(delays)} flagged, {missed} missed"
        f"{_delays_text(delays)}\n"
    )


def _delays_text(delays: Sequence[int]) -> str:
    if not delays:
        return ""
    median, late = np.quantile(delays, (0.5, 0.9))
    return f"; jobs until the flag: median {median:.0f}, 90th percentile {late:.0f}"


def show_speed(application: ProfiledApplication, known_library: Library) -> None:
    """Print the time to process the observations of one application."""
    before = prior_belief(profile_of(application.truth, application.cells, known_library, {}))
    began = time.perf_counter()
    for _ in range(20):
        update_belief(before, application.observations)
    each = (time.perf_counter() - began) / 20
    sys.stdout.write(
        f"{len(application.observations)} observations processed in {1e3 * each:.2f} ms\n"
    )


def show_loop(
    world: DemoCluster,
    applications: Sequence[ProfiledApplication],
    known_library: Library,
    options: argparse.Namespace,
) -> None:
    """Print how well jobs meet their targets, sized with and without feedback."""
    for learns in (False, True):
        tracked = [
            TrackedApplication.of(application.truth, application.cells, known_library)
            for application in applications
        ]
        outcome = ClosedLoop(world, tracked, options).run(learns=learns)
        sys.stdout.write(f"{'with' if learns else 'without'} feedback: {outcome}\n")
        sys.stdout.flush()


def _error(belief: Belief, observation: Observation) -> float:
    expected = predict(belief, observation)
    if expected is None:
        raise ValueError(f"the profile has no platform of {observation}")
    return float(np.log(observation.rate)) - expected.log_rate


def main() -> None:
    """Print all parts."""
    parser = argparse.ArgumentParser(description="Effect of telemetry, offline.")
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--applications", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=60, help="mean number of jobs per application")
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", choices=list(WORLDS), default=MEASURED.name)
    options = parser.parse_args()
    before_ms = calibrate()
    world = demo_cluster(options.servers, CLUSTER_SEED, world_named(options.world))
    known_library = offline_library(world)
    applications = draw_applications(
        world, options.applications, np.random.default_rng(options.seed)
    )
    run_jobs(world, applications, options)
    show_errors(applications, known_library)
    show_drift(applications, known_library)
    show_speed(applications[0], known_library)
    show_loop(world, applications, known_library, options)
    sys.stdout.write(calibration_line(before_ms, calibrate()) + "\n")


if __name__ == "__main__":
    main()
