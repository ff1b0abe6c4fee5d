"""Jobs sized by what feedback has taught so far, on the emulated cluster, offline."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apps.classification.core.assemble import Library, assemble
from apps.classification.core.feedback import (
    BYTES,
    Belief,
    Observation,
    Part,
    Place,
    believed,
    follow,
    taught,
)
from apps.classification.core.matrix import Cell
from apps.classification.core.profile import Profile
from apps.emulation.core.truth import Truth
from apps.execution.core.telemetry import PROGRESS_DEVIATION
from apps.inventory.core.snapshot import Shorts
from apps.scheduling.core.ask import Ask, request_of, size_of
from apps.scheduling.core.registry import make
from apps.scheduling.core.scorers import beyond_tolerance
from apps.scheduling.core.sizing import ClusterFacts, Sized
from apps.scheduling.core.types import Placed, Verdict
from apps.testbed.core.offline import Arrival, Offline, Settings, parts_of
from apps.testbed.core.worlds import World
from apps.workloads.core.framework import setting_named
from apps.workloads.core.spec import Constraints
from apps.workloads.core.targets import CompletionTime

WIDTHS = (1, 2, 4, 8, 16)  # units of middling speed that a target asks for
SECONDS = (120.0, 1200.0)  # targets, log-uniform
MIDDLING = 0.6  # speed of a unit, neighbours included


@dataclass(slots=True, eq=False)
class Student:
    """One application, and what is known of it so far."""

    truth: Truth
    cells: Sequence[Cell]
    library: Library
    seen: list[Observation]
    written: dict[Place, Cell]
    profile: Profile
    before: Belief

    @classmethod
    def of(cls, truth: Truth, cells: Sequence[Cell], library: Library) -> "Student":
        """Only profiled yet."""
        profile = profile_of(truth, cells, library, {})
        return cls(truth, cells, library, [], {}, profile, believed(profile))

    def watch(self, seen: Observation) -> bool:
        """Learn from one more job; whether that made a new profile."""
        self.seen.append(seen)
        after = follow(self.before, self.seen).belief
        told = taught(self.before, after, self.written)
        if told:
            self.written |= {Place(cell.matrix, cell.column): cell for cell in told}
            self.profile = profile_of(self.truth, self.cells, self.library, self.written)
        return bool(told)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the jobs of one loop; targets are held against their time on the servers."""

    jobs: int
    infeasible: int
    met: float
    waited_s: float
    attainment: float
    units: float
    unit_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.jobs} jobs ({self.infeasible} infeasible): {self.met:.1%} met their target, "
            f"attainment {self.attainment:.2f} on average, {self.units:.2f} units and "
            f"{self.unit_seconds:,.0f} unit-seconds a job, {self.waited_s:.0f} s waited"
        )


def profile_of(
    truth: Truth, cells: Sequence[Cell], library: Library, told: dict[Place, Cell]
) -> Profile:
    """Fold what profiling measured and what was told since."""
    kept = [cell for cell in cells if Place(cell.matrix, cell.column) not in told]
    names = truth.catalogue.names
    return assemble(truth.name, truth.kind, [*kept, *told.values()], library, platforms=names)


def _parts(world: World, units: Shorts) -> tuple[Part, ...]:
    """Return what a job holds, by server."""
    names, platform = world.topology.platform_name, world.topology.server_platform
    return tuple(
        Part(names[platform[server]], count)
        for server, count in parts_of(units, world.topology.unit_server)
    )


def observed(world: World, placed: Placed, rate: float, *, setting: str = "") -> Observation:
    """Return what feedback is told of a job that ran where it was placed."""
    chosen = [c.headroom for c in placed.candidates if c.verdict == Verdict.CHOSEN]
    return Observation(
        run=placed.job,
        parts=_parts(world, placed.units),
        column=BYTES,
        rate=rate,
        deviation=PROGRESS_DEVIATION,
        setting=setting,
        beyond=beyond_tolerance(chosen),
    )


class _Job(NamedTuple):
    """Whose it is, the seconds promised, its input, and the framework setting it runs with."""

    who: int
    seconds: float
    input_bytes: float
    setting: str


class Loop:
    """The same jobs at the same times, sized with or without feedback."""

    def __init__(
        self, world: World, students: Sequence[Student], options: argparse.Namespace
    ) -> None:
        self._world, self._students, self._options = world, students, options
        self._offline = Offline(world, make("tarcil"), Settings(), options.seed)
        self._jobs: list[_Job] = []
        self._infeasible = 0
        self._facts = _facts(world)

    def run(self, *, learns: bool) -> Outcome:
        """Run all jobs; what ended teaches before the next one is sized."""
        report = self._offline.run(self._arrivals(learns=learns))
        rows = [
            (job.seconds, record.ended_s - record.started_s, record.started_s - record.arrived_s,
             record.units)
            for job, record in zip(self._jobs, report.jobs, strict=True)
        ]  # fmt: skip
        promised, ran, waited, units = np.array(rows).T
        return Outcome(
            jobs=len(rows),
            infeasible=self._infeasible,
            met=float((ran <= promised).mean()),
            attainment=float((promised / ran).mean()),
            waited_s=float(waited.mean()),
            units=float(units.mean()),
            unit_seconds=float((units * ran).mean()),
        )

    def _arrivals(self, *, learns: bool) -> Iterator[Arrival]:
        rng = np.random.default_rng(self._options.seed)
        mean_s = (SECONDS[1] - SECONDS[0]) / np.log(SECONDS[1] / SECONDS[0])
        held = float(np.mean(WIDTHS)) * mean_s
        per_s = self._options.load * float(self._world.topology.server_units.sum()) / held
        at_s, known = 0.0, set[int]()
        for _ in range(self._options.applications * self._options.jobs):
            at_s += float(rng.exponential(1.0 / per_s))
            who = int(rng.integers(len(self._students)))
            seconds = float(np.exp(rng.uniform(*np.log(SECONDS))))
            work_s = MIDDLING * seconds * float(rng.choice(WIDTHS))
            if learns:
                self._learn(at_s, known)
            student = self._students[who]
            ask = Ask(
                job=str(len(self._jobs)),
                target=CompletionTime(seconds),
                constraints=Constraints(),
                input_bytes=work_s * student.truth.bytes_per_s,
            )
            sized = size_of(ask, student.profile, self._facts)
            if not isinstance(sized, Sized):
                self._infeasible += 1
                continue
            self._jobs.append(_Job(who, seconds, ask.input_bytes, sized.setting))
            request = request_of(ask, student.profile, sized, self._world.topology)
            speed = _speed(student.truth, sized.setting)
            yield Arrival(at_s, request, student.truth, work_s / speed)

    def _learn(self, now_s: float, known: set[int]) -> None:
        """Watch the jobs that ended since the last look."""
        report = self._offline.report
        new = [
            n for n, record in enumerate(report.jobs) if n not in known and record.ended_s <= now_s
        ]
        if not new:
            return
        placed = {d.placed.job: d.placed for d in report.decisions if d.is_committed}
        for n in new:
            known.add(n)
            record, job = report.jobs[n], self._jobs[n]
            rate = job.input_bytes / (record.ended_s - record.started_s)
            seen = observed(self._world, placed[record.job], rate, setting=job.setting)
            self._students[job.who].watch(seen)


def _speed(truth: Truth, setting: str) -> float:
    """Return how much faster the job really runs for its framework setting."""
    if not setting or truth.framework is None:
        return 1.0
    return truth.framework.speed(setting_named(setting))


def _facts(world: World) -> ClusterFacts:
    topology = world.topology
    n = len(topology.platform_name)
    units = np.bincount(topology.server_platform, topology.server_units, n).astype(int)
    largest = np.zeros(n, dtype=np.int64)
    np.maximum.at(largest, topology.server_platform, topology.server_units)
    return ClusterFacts(topology.platform_name, tuple(units.tolist()), tuple(largest.tolist()))
