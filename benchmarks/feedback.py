"""What telemetry teaches: prediction errors over the jobs of an application, and drift.

    ./dev bench feedback [--servers 200] [--applications 40] [--load 0.7] [--seed 1]

Jobs of applications that were profiled once run beside each other on the emulated cluster,
offline. Their rates are predicted from the profile as it was drawn, and from one that is drawn
anew whenever feedback has something to tell. In the second part the same runs are followed for
drift, with some applications whose speed changes half-way.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from apps.classification.core.assemble import Library
from apps.classification.core.drift import mean_run_length, summed
from apps.classification.core.feedback import (
    Belief,
    Observation,
    Place,
    believed,
    follow,
    predict,
    taught,
)
from apps.classification.core.matrix import Cell, MatrixName, columns_of, from_cells
from apps.emulation.core.draws import ANALYTICS, BATCH, SINGLE_NODE, application_truth
from apps.emulation.core.library import library
from apps.emulation.core.platforms import Catalogue
from apps.emulation.core.probe import ProbeRun, probe
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Within
from apps.testbed.core.offline import Arrival, Offline, Settings
from apps.testbed.core.worlds import World, demo_world, request_of
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._closed_loop import Loop, Student, observed, profile_of
from benchmarks._world import cells_of

CLUSTER_SEED = 2015
KINDS = (ANALYTICS, SINGLE_NODE, BATCH)
UNITS = (1, 1, 2, 4, 8)
MEAN_WORK_S = 600.0  # of one unit
MEAN_SPEED = 0.7
STEPS = (0, 1, 3, 6, 11, 21, 41)  # jobs seen before: the rows of the table
SLOWER = 0.7  # the speed of an application that changes, relative to before


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """One application: what it is, what profiling measured, what its jobs did, oldest first."""

    truth: Truth
    cells: tuple[Cell, ...]
    seen: list[Observation]


def offline_library(platforms: Catalogue) -> Library:
    """Measure the library of the cluster."""
    rows = {entry.application: cells_of(entry.cells) for entry in library(CLUSTER_SEED, platforms)}
    names = platforms.names
    return Library(
        1, {name: from_cells(name, columns_of(name, names), rows) for name in MatrixName}
    )


def subjects(world: World, count: int, rng: np.random.Generator) -> list[Subject]:
    """Applications that nobody knows but for the runs of Quasar §3.4."""
    platforms = world.machines.platforms
    made = []
    for i in range(count):
        truth = application_truth(CLUSTER_SEED, f"app{i}", KINDS[i % 3], platforms)
        best, *others = platforms.names
        runs = [
            ProbeRun(best, 1, 1),
            ProbeRun(best, 1, int(rng.choice((2, 4, 8)))),
            ProbeRun(best, int(rng.choice((2, 4, 8))), 1),
            ProbeRun(str(rng.choice(others)), 1, 1),
        ]
        made.append(Subject(truth, tuple(cells_of(probe(truth, runs, rng).cells)), []))
    return made


def run_jobs(world: World, found: Sequence[Subject], options: argparse.Namespace) -> None:
    """Let jobs of all applications run beside each other; fill what was seen of them."""
    rng = np.random.default_rng(options.seed)
    unit_seconds = MEAN_WORK_S * float(np.mean(UNITS))
    rate = options.load * float(world.topology.server_units.sum()) * MEAN_SPEED / unit_seconds
    total = options.applications * options.jobs
    times = np.cumsum(rng.exponential(1.0 / rate, total))
    chosen = rng.integers(len(found), size=total)
    jobs = []
    for n, (at, i) in enumerate(zip(times.tolist(), chosen.tolist(), strict=True)):
        units = int(rng.choice(UNITS))
        work = (float(rng.exponential(MEAN_WORK_S)) + 60.0) * units
        request = request_of(found[i].truth, str(n), units=units)
        together = found[i].truth.kind != ANALYTICS and units > 1
        asked = replace(request, gang=True, locality=Within.SERVER if together else None)
        jobs.append(Arrival(at, asked, found[i].truth, work))
    report = Offline(world, make("tarcil"), Settings(), options.seed).run(jobs)
    placed = {d.placed.job: d.placed for d in report.decisions if d.is_committed}
    order = np.argsort([record.ended_s for record in report.jobs])
    for n in order.tolist():
        record, job = report.jobs[n], jobs[n]
        rate = job.work_s * job.truth.bytes_per_s / (record.ended_s - record.started_s)
        found[chosen[n]].seen.append(observed(world, placed[str(n)], rate))


def errors_of(subject: Subject, known: Library) -> tuple[Floats, Floats, int]:
    """(k,) prediction errors without feedback and with it; and how many profiles were drawn."""
    first = profile_of(subject.truth, subject.cells, known, {})
    before, now, written = believed(first), first, dict[Place, Cell]()
    plain, fed, drawn = [], [], 0
    for k, seen in enumerate(subject.seen):
        plain.append(_error(believed(first), seen))
        fed.append(_error(believed(now), seen))
        after = follow(before, subject.seen[: k + 1]).belief
        told = taught(before, after, written)
        if told:
            written |= {Place(cell.matrix, cell.column): cell for cell in told}
            now = profile_of(subject.truth, subject.cells, known, written)
            drawn += 1
    return np.array(plain), np.array(fed), drawn


def flagged_after(seen: Sequence[Observation], before: Belief, *, changes_at: int) -> int | None:
    """Jobs after the change until the application is flagged; None where it never is."""
    for k in range(1, len(seen) + 1):
        found = follow(before, seen[:k])
        if summed(found.innovations, found.errors).is_flagged:
            return k - changes_at
    return None


def show_errors(found: Sequence[Subject], known: Library) -> None:
    """Print the first table."""
    buckets: dict[int, list[tuple[float, float]]] = defaultdict(list)
    drawn = Counter[int]()
    for subject in found:
        plain, fed, profiles = errors_of(subject, known)
        drawn[0] += profiles
        for k, pair in enumerate(zip(plain.tolist(), fed.tolist(), strict=True)):
            buckets[max(step for step in STEPS if step <= k)].append(pair)
    sys.stdout.write("jobs seen before | predictions | mean |error| as profiled, with feedback | ")
    sys.stdout.write("90th percentile of both\n")
    for step in sorted(buckets):
        pairs = np.abs(np.array(buckets[step]))
        (a, b), (c, d) = pairs.mean(axis=0), np.quantile(pairs, 0.9, axis=0)
        sys.stdout.write(f"{step:>4}+ | {len(pairs)} | {a:.3f} {b:.3f} | {c:.3f} {d:.3f}\n")
    jobs = sum(len(subject.seen) for subject in found)
    sys.stdout.write(f"{drawn[0]} profiles drawn anew for {jobs} jobs\n")


def show_drift(found: Sequence[Subject], known: Library) -> None:
    """Print how many applications are flagged, unchanged and changed half-way."""
    false, observations, delays, missed = 0, 0, [], 0
    deviations = []
    for subject in found:
        before = believed(profile_of(subject.truth, subject.cells, known, {}))
        innovations = follow(before, subject.seen).innovations
        deviations.append(innovations)
        at = flagged_after(subject.seen, before, changes_at=0)
        false += at is not None
        observations += len(subject.seen) if at is None else at
        half = len(subject.seen) // 2
        slower = [replace(seen, rate=SLOWER * seen.rate) for seen in subject.seen[half:]]
        changed = [*subject.seen[:half], *slower]
        late = flagged_after(changed, before, changes_at=half)
        if late is None:
            missed += 1
        elif late > 0:
            delays.append(late)
    z = np.concatenate(deviations)
    sys.stdout.write(
        f"innovations: mean {z.mean():+.2f}, deviation {z.std():.2f}, beyond 3: "
        f"{np.mean(np.abs(z) > 3):.1%}\n"
        f"unchanged: {false} of {len(found)} flagged in {observations} observations "
        f"(mean run length in theory {mean_run_length():.0f})\n"
        f"changed to {SLOWER} of the speed: {len(delays)} flagged, {missed} missed; jobs until "
        f"then: median {np.median(delays):.0f}, 90th percentile {np.quantile(delays, 0.9):.0f}\n"
    )


def show_speed(subject: Subject, known: Library) -> None:
    """Print what one application costs."""
    before = believed(profile_of(subject.truth, subject.cells, known, {}))
    began = time.perf_counter()
    for _ in range(20):
        follow(before, subject.seen)
    each = (time.perf_counter() - began) / 20
    sys.stdout.write(f"{len(subject.seen)} observations followed in {1e3 * each:.2f} ms\n")


def show_loop(
    world: World, found: Sequence[Subject], known: Library, options: argparse.Namespace
) -> None:
    """Print what feedback does to jobs that are sized by it."""
    for learns in (False, True):
        students = [Student.of(subject.truth, subject.cells, known) for subject in found]
        outcome = Loop(world, students, options).run(learns=learns)
        sys.stdout.write(f"{'with' if learns else 'without'} feedback: {outcome}\n")
        sys.stdout.flush()


def _error(belief: Belief, seen: Observation) -> float:
    expected = predict(belief, seen)
    if expected is None:
        raise ValueError(f"the profile knows no platform of {seen}")
    return float(np.log(seen.rate)) - expected.log_rate


def main() -> None:
    """Print both parts."""
    parser = argparse.ArgumentParser(description="What telemetry teaches, offline.")
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--applications", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=60, help="of each application, on average")
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    before_ms = calibrate()
    world = demo_world(options.servers, CLUSTER_SEED)
    known = offline_library(world.machines.platforms)
    found = subjects(world, options.applications, np.random.default_rng(options.seed))
    run_jobs(world, found, options)
    show_errors(found, known)
    show_drift(found, known)
    show_speed(found[0], known)
    show_loop(world, found, known, options)
    sys.stdout.write(calibration_line(before_ms, calibrate()) + "\n")


if __name__ == "__main__":
    main()
