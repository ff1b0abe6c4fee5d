"""Jobs of a workload as production sees them: specification, size, request."""

import math
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.profile import Profile
from apps.emulation.core.events import EngineOrder
from apps.emulation.core.seeds import Stream, stream_seed
from apps.emulation.core.stragglers import task_seed
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Ints, Snapshot
from apps.scheduling.core.patience import patience_s
from apps.scheduling.core.requests import after, cluster_facts, request_of, size_or_late
from apps.scheduling.core.sizing.allowances import DEFAULT, AllowanceLearner, Allowances
from apps.scheduling.core.sizing.run_time import run_time
from apps.scheduling.core.sizing.sizes import ClusterFacts, Infeasible, Sized
from apps.scheduling.core.types import Request
from apps.testbed.core.demo_cluster import DemoCluster
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.model import Admission, ProfileSource, ReplayCluster, ReplayOptions
from apps.testbed.core.replay.profiles import (
    average_profiles,
    inferred_profiles,
    true_profile,
)
from apps.testbed.core.replay.workloads import NO_TARGET, SIZED, Workload
from apps.workloads.core.framework import setting_named
from apps.workloads.core.shapes import AGE_SHARE, MIN_AGE_S
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import BestEffort, CompletionTime

Shape = tuple[float, ...]
NO_QUEUES: Final = np.empty(0, dtype=np.int64)
UNUSED: Final = ClusterFacts((), (), ())  # of a job with a number of units


class SizedRequest(NamedTuple):
    """A sized job.

    Attributes
    ----------
    speed : of its framework setting relative to the default one
    run_s : predicted run time, for admission controls that use it; NaN = unknown
    patience_s : after its arrival, the time at which the job takes any units
    """

    request: Request
    speed: float
    run_s: float = math.nan
    patience_s: float = 0.0


class Demand:
    """The jobs of one workload on one cluster.

    Raises
    ------
    ReplayError : the kind of an application is unknown.
    """

    def __init__(
        self,
        load: Workload,
        cluster: ReplayCluster,
        emulated: DemoCluster,
        options: ReplayOptions,
    ) -> None:
        self.load = load
        self.truths = _truths(load, emulated, options.seed)
        self.profiles = _profiles(self.truths, cluster, emulated, options)
        self.seed = options.seed
        self.allowances = AllowanceLearner()
        self._sized: dict[int, Sized] = {}
        self._slow_rate: dict[int, float] = {}
        self._topology = emulated.topology
        self._next = 0
        is_in_order = options.admission is Admission.FIFO
        self._patience_s = 0.0 if is_in_order else options.patience_s
        self._predicts = self._patience_s > 0.0 or options.admission is Admission.ARQ

    @property
    def queues(self) -> Ints:
        """(n,) number of the queue of each job."""
        return self.load.queue

    def next_arrival(self) -> tuple[float, str] | None:
        """Time and name of the next job."""
        job, self._next = self._next, self._next + 1
        return (float(self.load.arrival_s[job]), str(job)) if job < len(self.load) else None

    def truth(self, job: int) -> Truth:
        """Return the true behaviour of a job."""
        return self.truths[self.load.application[job]]

    def profile(self, job: int) -> Profile:
        """Return what the scheduler knows of a job's application."""
        return self.profiles[self.load.application[job]]

    def ends_after_s(self, job: int) -> float:
        """Seconds after its start at which a job ends at the latest; infinite if unknown."""
        return float(self.load.duration_s[job])

    def shape(self, job: int) -> Shape:
        """Return what a decision on a waiting job depends on, besides the cluster."""
        load, target_s = self.load, float(self.load.target_s[job])
        age = 0.0
        if target_s < NO_TARGET:
            age = load.arrival_s[job] // max(MIN_AGE_S, AGE_SHARE * target_s)
        return (
            -load.priority[job].item(),
            load.application[job].item(),
            load.units[job].item(),
            load.work_s[job].item(),
            load.tasks[job].item(),
            target_s,
            load.unit_memory_bytes[job].item(),
            load.gang[job].item(),
            age,
        )

    def request(self, job: int, now: float, facts: "LazyFacts") -> SizedRequest | Infeasible:
        """Size a job for its target, and build its request."""
        spec = self._spec(job)
        profile = self.profile(job)
        elapsed_s = now - float(self.load.arrival_s[job])
        known = facts.of(profile, self.allowances.now) if spec.units is None else UNUSED
        sized = size_or_late(spec, profile, known, elapsed_s=elapsed_s)
        if isinstance(sized, Infeasible):
            return sized
        request = request_of(spec, profile, sized, self._topology, job=str(job))
        request = after(request, elapsed_s)
        self._sized[job] = sized
        run = None
        if self._predicts:
            all_facts = facts.of(profile, self.allowances.now)
            run = run_time(spec, profile, sized, all_facts, elapsed_s=elapsed_s)
        run_s = math.nan if run is None else run.value
        limit_s, priority = self._patience_s, spec.priority
        wait_s = patience_s(
            request.units, spec.target.kind, run, limit_s=limit_s, priority=priority
        )
        framework, speed = self.truth(job).framework, 1.0
        if sized.setting and framework is not None:
            speed = framework.speed(setting_named(sized.setting))
        return SizedRequest(request, speed, run_s, wait_s)

    def order(self, job: int, sized: SizedRequest, parts: list[tuple[int, int]]) -> EngineOrder:
        """Return the order that starts a job."""
        load = self.load
        tasks, duration_s = int(load.tasks[job]), float(load.duration_s[job])
        if (known := self._sized.pop(job, None)) is not None:
            self._slow_rate[job] = known.slow_rate(self._platforms(parts))
        return EngineOrder(
            key=job,
            truth=self.truth(job),
            parts=parts,
            work_s=float(load.work_s[job]) / sized.speed,
            tasks=tasks or None,
            duration_s=None if np.isinf(duration_s) else duration_s,
            task_seed=task_seed(self.seed, job) if tasks else 0,
        )

    def _platforms(self, parts: list[tuple[int, int]]) -> set[str]:
        """Return the platforms of the servers of a job."""
        of = self._topology.server_platform
        return {self._topology.platform_name[of[server]] for server, _ in parts}

    def ended(self, job: int, ran_s: float, *, is_whole: bool) -> None:
        """Learn from a job that ran for a time, on the units that it was sized for."""
        slow_rate = self._slow_rate.pop(job, math.nan)
        if is_whole and ran_s > 0.0 and self.load.duration_s[job] == np.inf:
            spec = self._spec(job)
            self.allowances.add(spec.target.kind, spec.input_bytes / ran_s / slow_rate)

    def _spec(self, job: int) -> JobSpec:
        load, truth = self.load, self.truth(job)
        target_s, work_s = float(load.target_s[job]), float(load.work_s[job])
        units, duration_s = int(load.units[job]), float(load.duration_s[job])
        return JobSpec(
            application=truth.name,
            target=BestEffort() if target_s == NO_TARGET else CompletionTime(target_s),
            application_kind=truth.kind,
            input_bytes=0 if np.isinf(work_s) else round(work_s * truth.bytes_per_s),
            tasks=int(load.tasks[job]),
            units=None if units == SIZED else units,
            duration_s=None if np.isinf(duration_s) else duration_s,
            priority=int(load.priority[job]),
            gang=bool(load.gang[job]),
            unit_memory_bytes=int(load.unit_memory_bytes[job]),
        )


class LazyFacts:
    """Units of each platform on one snapshot, counted only if a job is sized."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._facts: ClusterFacts | None = None

    def of(self, profile: Profile, allowances: Allowances = DEFAULT) -> ClusterFacts:
        """Return the facts for a profile; all profiles of a replay have the same platforms."""
        if self._facts is None:
            self._facts = cluster_facts(self.snapshot, profile.platforms, allowances)
        return self._facts


def _profiles(
    truths: list[Truth], cluster: ReplayCluster, emulated: DemoCluster, options: ReplayOptions
) -> list[Profile]:
    match options.profiles:
        case ProfileSource.TRUE:
            return [true_profile(truth) for truth in truths]
        case ProfileSource.NONE:
            return average_profiles(truths, emulated, options.seed)
        case ProfileSource.INFERRED:
            return inferred_profiles(truths, cluster, emulated, options.seed)


def _truths(load: Workload, emulated: DemoCluster, seed: int) -> list[Truth]:
    draw, own = emulated.world.application_truth, stream_seed(seed, Stream.TEST)
    try:
        return [draw(own, a.name, a.kind, emulated.machines.platforms) for a in load.applications]
    except ValueError as error:
        raise ReplayError(f"an application of {load.name} is invalid: {error}") from error
