"""Jobs sized with feedback from earlier jobs, on the emulated cluster, offline."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from apps.classification.core.feedback import (
    BYTES,
    Belief,
    CellKey,
    Observation,
    ServerUnits,
    cells_to_record,
    prior_belief,
    update_belief,
)
from apps.classification.core.inference import Library, infer_profile
from apps.classification.core.matrix import Cell
from apps.classification.core.profile import Profile
from apps.emulation.core.truth import Truth
from apps.execution.core.telemetry import PROGRESS_DEVIATION
from apps.inventory.core.snapshot import Shorts
from apps.scheduling.core.registry import make
from apps.scheduling.core.requests import request_of, size_of
from apps.scheduling.core.scorers import beyond_tolerance
from apps.scheduling.core.sizing import allowances
from apps.scheduling.core.sizing.allowances import AllowanceLearner, Allowances
from apps.scheduling.core.sizing.sizes import ClusterFacts, Sized
from apps.scheduling.core.types import Placed, Verdict
from apps.testbed.core.demo_cluster import DemoCluster
from apps.testbed.core.offline import AgentSettings, JobArrival, OfflineRun, parts_of
from apps.workloads.core.framework import setting_named
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import CompletionTime

UNITS = (1, 2, 4, 8, 16)  # units of mean speed that a target needs
SECONDS = (120.0, 1200.0)  # targets, log-uniform
NEAR = 0.95  # of the target
MEAN_SPEED = 0.6  # speed of a unit, neighbours included


@dataclass(slots=True, eq=False)
class TrackedApplication:
    """One application and the current knowledge about it."""

    truth: Truth
    cells: Sequence[Cell]
    library: Library
    observations: list[Observation]
    written: dict[CellKey, Cell]
    profile: Profile
    prior: Belief

    @classmethod
    def of(cls, truth: Truth, cells: Sequence[Cell], library: Library) -> "TrackedApplication":
        """Create one that knows the profiling run only."""
        profile = profile_of(truth, cells, library, {})
        return cls(truth, cells, library, [], {}, profile, prior_belief(profile))

    def observe(self, observation: Observation) -> bool:
        """Learn from one more job; return True if that changed the profile."""
        self.observations.append(observation)
        after = update_belief(self.prior, self.observations).belief
        recorded = cells_to_record(self.prior, after, self.written)
        if recorded:
            self.written |= {CellKey(cell.matrix, cell.column): cell for cell in recorded}
            self.profile = profile_of(self.truth, self.cells, self.library, self.written)
        return bool(recorded)


@dataclass(frozen=True, slots=True)
class LoopFigures:
    """Figures of the jobs of one loop; targets are compared with their time on the servers.

    Attributes
    ----------
    met, near : share of the jobs that reach their target, and 0.95 of it
    performance : mean of attainment, at most 1 for each job
    """

    jobs: int
    infeasible: int
    met: float
    near: float
    performance: float
    waited_s: float
    attainment: float
    units: float
    unit_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.jobs} jobs ({self.infeasible} infeasible): {self.met:.1%} met their target, "
            f"attainment {self.attainment:.2f} on average, {self.units:.2f} units and "
            f"{self.unit_seconds:,.0f} unit-seconds per job, {self.waited_s:.0f} s waited"
        )


def profile_of(
    truth: Truth, cells: Sequence[Cell], library: Library, recorded: dict[CellKey, Cell]
) -> Profile:
    """Infer a profile from the profiling run and the cells that feedback recorded."""
    unrecorded = [cell for cell in cells if CellKey(cell.matrix, cell.column) not in recorded]
    names = truth.catalogue.names
    return infer_profile(
        truth.name, truth.kind, [*unrecorded, *recorded.values()], library, platforms=names
    )


def _parts(world: DemoCluster, units: Shorts) -> tuple[ServerUnits, ...]:
    """Return the units of a job by server."""
    names, platform = world.topology.platform_name, world.topology.server_platform
    return tuple(
        ServerUnits(names[platform[server]], count)
        for server, count in parts_of(units, world.topology.unit_server)
    )


def observation_of(
    world: DemoCluster, placed: Placed, rate: float, *, setting: str = ""
) -> Observation:
    """Return the observation of a job that ran where it was placed."""
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
    """A job: its application, target in seconds, input, setting and predictions."""

    application_index: int
    seconds: float
    input_bytes: float
    setting: str
    sized: Sized


class ClosedLoop:
    """The same jobs at the same times, sized with or without feedback."""

    def __init__(
        self,
        world: DemoCluster,
        applications: Sequence[TrackedApplication],
        options: argparse.Namespace,
        *,
        learns_allowance: bool = True,
    ) -> None:
        self._world, self._applications, self._options = world, applications, options
        self._offline = OfflineRun(world, make("tarcil"), AgentSettings(), options.seed)
        self._jobs: list[_Job] = []
        self._infeasible = 0
        self._facts = _facts(world)
        prior = Allowances.all(allowances.INTERFERENCE_ALLOWANCE)
        self.allowances = AllowanceLearner(prior)
        self._learns_allowance = learns_allowance

    def run(self, *, learns: bool) -> LoopFigures:
        """Run all jobs; if it learns, observe the ended jobs before sizing the next one."""
        report = self._offline.run(self._arrivals(learns=learns))
        rows = [
            (job.seconds, record.ended_s - record.started_s, record.started_s - record.arrived_s,
             record.units)
            for job, record in zip(self._jobs, report.jobs, strict=True)
        ]  # fmt: skip
        promised, ran, waited, units = np.array(rows).T
        return LoopFigures(
            jobs=len(rows),
            infeasible=self._infeasible,
            met=float((ran <= promised).mean()),
            near=float((promised / ran >= NEAR).mean()),
            performance=float(np.minimum(promised / ran, 1.0).mean()),
            attainment=float((promised / ran).mean()),
            waited_s=float(waited.mean()),
            units=float(units.mean()),
            unit_seconds=float((units * ran).mean()),
        )

    def _arrivals(self, *, learns: bool) -> Iterator[JobArrival]:
        rng = np.random.default_rng(self._options.seed)
        mean_s = (SECONDS[1] - SECONDS[0]) / np.log(SECONDS[1] / SECONDS[0])
        held = float(np.mean(UNITS)) * mean_s
        per_s = self._options.load * float(self._world.topology.server_units.sum()) / held
        at_s, known = 0.0, set[int]()
        for _ in range(self._options.applications * self._options.jobs):
            at_s += float(rng.exponential(1.0 / per_s))
            application_index = int(rng.integers(len(self._applications)))
            seconds = float(np.exp(rng.uniform(*np.log(SECONDS))))
            work_s = MEAN_SPEED * seconds * float(rng.choice(UNITS))
            if learns:
                self._learn(at_s, known)
            application = self._applications[application_index]
            spec = JobSpec(
                application=application.truth.name,
                target=CompletionTime(seconds),
                input_bytes=round(work_s * application.truth.bytes_per_s),
            )
            facts = replace(self._facts, allowances=self.allowances.now)
            sized = size_of(spec, application.profile, facts)
            if not isinstance(sized, Sized):
                self._infeasible += 1
                continue
            job = str(len(self._jobs))
            self._jobs.append(
                _Job(application_index, seconds, spec.input_bytes, sized.setting, sized)
            )
            request = request_of(spec, application.profile, sized, self._world.topology, job=job)
            speed = _speed(application.truth, sized.setting)
            yield JobArrival(at_s, request, application.truth, work_s / speed)

    def _learn(self, now_s: float, known: set[int]) -> None:
        """Observe the jobs that have ended since the last call."""
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
            observation = observation_of(
                self._world, placed[record.job], rate, setting=job.setting
            )
            if self._learns_allowance:
                slow_rate = job.sized.slow_rate(part.platform for part in observation.parts)
                self.allowances.add("completion_time", rate / slow_rate)
            self._applications[job.application_index].observe(observation)


def _speed(truth: Truth, setting: str) -> float:
    """Return how much faster the job really runs for its framework setting."""
    if not setting or truth.framework is None:
        return 1.0
    return truth.framework.speed(setting_named(setting))


def _facts(world: DemoCluster) -> ClusterFacts:
    topology = world.topology
    n = len(topology.platform_name)
    units = np.bincount(topology.server_platform, topology.server_units, n).astype(int)
    largest = np.zeros(n, dtype=np.int64)
    np.maximum.at(largest, topology.server_platform, topology.server_units)
    return ClusterFacts(topology.platform_name, tuple(units.tolist()), tuple(largest.tolist()))
