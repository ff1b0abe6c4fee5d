"""Preemptions without an operator: bounded, without ping-pong, and every job completes."""

from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.scheduling.core.preemption.limits import Limit, PastPreemptions, PreemptionLimits
from apps.scheduling.core.preemption.victims import Candidate, Part, Room, Waiting
from tests.scheduling.core.preemption.test_victims import victims

SERVERS, UNITS, STEP_S = 2, 3, 10.0


@pytest.mark.parametrize(
    ("preemptions", "ago_s", "allowed"),
    [(0, np.inf, True), (1, 60.0, True), (1, 59.9, False), (2, 1e6, False)],
    ids=["never", "after the cool-down", "cool-down", "too often"],
)
def test_a_job_may_be_stopped_within_its_limits(
    preemptions: int, ago_s: float, *, allowed: bool
) -> None:
    limits = PreemptionLimits(per_job=2, per_hour=1, cooldown_s=60.0)
    found = limits.allows(np.array([preemptions]), np.array([100.0 - ago_s]), 100.0)
    assert found.tolist() == [allowed]


@pytest.mark.parametrize(("stopped", "left"), [(0, 3), (2, 1), (3, 0), (5, 0)])
def test_the_victims_of_an_hour_are_bounded(stopped: int, left: int) -> None:
    assert PreemptionLimits(per_job=1, per_hour=3, cooldown_s=0.0).left(stopped) == left


@pytest.mark.parametrize(
    ("victims", "by_job", "in_hour", "found"),
    [
        ([PastPreemptions("a", 0, -np.inf)], 1, 2, []),
        ([PastPreemptions("a", 2, -np.inf)], 0, 0, [Limit.PER_VICTIM]),
        ([PastPreemptions("a", 1, 40.1)], 0, 0, [Limit.COOLDOWN]),
        ([PastPreemptions("a", 1, 40.0)], 0, 0, []),
        ([PastPreemptions("a", 0, -np.inf)], 2, 0, [Limit.PER_JOB]),
        ([PastPreemptions("a", 0, -np.inf)], 0, 3, [Limit.PER_HOUR]),
        ([PastPreemptions(name, 0, -np.inf) for name in "ab"], 0, 2, [Limit.PER_HOUR]),
        ([PastPreemptions("a", 2, 99.0)], 2, 3, list(Limit)),
    ],
    ids=["none", "too often", "cool-down", "after it", "job", "hour", "two in the hour", "all"],
)
def test_exceeded_limits_are_named(
    victims: list[PastPreemptions], by_job: int, in_hour: int, found: list[Limit]
) -> None:
    limits = PreemptionLimits(per_job=2, per_hour=3, cooldown_s=60.0)
    exceeded = limits.exceeded(victims, by_job=by_job, in_hour=in_hour, now_s=100.0)
    assert [each.limit for each in exceeded] == found


def test_an_exceeded_limit_names_the_job_and_the_setting() -> None:
    limits = PreemptionLimits(per_job=2, per_hour=3, cooldown_s=60.0)
    (limit,) = limits.exceeded([PastPreemptions("a", 1, 70.0)], by_job=0, in_hour=0, now_s=100.0)
    assert limit.as_json() == {
        "limit": "cooldown",
        "setting": "BERTH_PREEMPTION_COOLDOWN_S",
        "message": "a was preempted 30 s ago. The cool-down is 60 s.",
    }


@dataclass
class SimulatedJob:
    """A one-server job; it starts again from nothing after a preemption."""

    key: UUID
    priority: int
    units: int
    steps: int
    arrives: int
    server: int | None = None
    done: int = 0
    preempted: list[int] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return self.done >= self.steps


@dataclass
class SimulatedCluster:
    """Jobs that arrive, start where there is room, and preempt others within limits."""

    jobs: list[SimulatedJob]
    limits: PreemptionLimits
    stopped: list[tuple[int, SimulatedJob, SimulatedJob]] = field(default_factory=list)
    now: int = 0

    def free(self, server: int) -> int:
        held = (job.units for job in self.running() if job.server == server)
        return UNITS - sum(held)

    def running(self) -> list[SimulatedJob]:
        return [job for job in self.jobs if job.server is not None and not job.is_complete]

    def waiting(self) -> list[SimulatedJob]:
        of = [job for job in self.jobs if job.server is None and job.arrives <= self.now]
        return sorted(of, key=lambda job: (-job.priority, job.arrives, job.key))

    def step(self) -> None:
        for job in self.waiting():
            if not self._start(job):
                self._preempt(job)
        for job in self.running():
            job.done += 1
        self.now += 1

    def _start(self, job: SimulatedJob) -> bool:
        server = next((s for s in range(SERVERS) if self.free(s) >= job.units), None)
        job.server = server
        return server is not None

    def _preempt(self, job: SimulatedJob) -> None:
        running = self.running()
        last = [STEP_S * max(each.preempted, default=-np.inf) for each in running]
        counts = np.array([len(each.preempted) for each in running], dtype=np.int64)
        allowed = self.limits.allows(counts, np.array(last), STEP_S * self.now)
        candidates = [
            Candidate(
                each.key, each.priority, each.done * each.units, breaks=False,
                parts=(Part(int(each.server or 0), each.units if may else 0),),
            )
            for each, may in zip(running, allowed.tolist(), strict=True)
        ]  # fmt: skip
        rooms = {server: Room(self.free(server), group=server) for server in range(SERVERS)}
        found = victims(Waiting(job.units, job.priority), rooms, candidates)
        recent = sum(STEP_S * (self.now - at) < 3600.0 for at, _, _ in self.stopped)
        if found is None or len(found.jobs) > self.limits.left(recent):
            return
        for victim in (each for each in running if each.key in found.jobs):
            victim.server, victim.done = None, 0
            victim.preempted.append(self.now)
            self.stopped.append((self.now, job, victim))
        self._start(job)


@st.composite
def clusters(draw: st.DrawFn) -> SimulatedCluster:
    jobs = [
        SimulatedJob(
            UUID(int=number),
            priority=draw(st.integers(0, 3)),
            units=draw(st.integers(1, UNITS)),
            steps=draw(st.integers(1, 8)),
            arrives=draw(st.integers(0, 12)),
        )
        for number in range(draw(st.integers(1, 9)))
    ]
    limits = PreemptionLimits(
        per_job=draw(st.integers(0, 3)),
        per_hour=draw(st.integers(0, 6)),
        cooldown_s=draw(st.sampled_from([0.0, 30.0, 100.0])),
    )
    return SimulatedCluster(jobs, limits)


@given(clusters())
@settings(max_examples=60)
def test_preemptions_are_bounded_and_every_job_completes(cluster: SimulatedCluster) -> None:
    work = sum(job.steps for job in cluster.jobs)
    # each preemption repeats the work of one job at most
    longest = 12 + work + sum(job.steps for job in cluster.jobs) * cluster.limits.per_job
    for _ in range(longest + 1):
        cluster.step()
    assert all(job.is_complete for job in cluster.jobs)
    limits = cluster.limits
    assert all(len(job.preempted) <= limits.per_job for job in cluster.jobs)
    gaps = [np.diff(job.preempted) * STEP_S for job in cluster.jobs]
    assert all((gap >= limits.cooldown_s).all() for gap in gaps)
    times = [STEP_S * at for at, _, _ in cluster.stopped]
    assert all(
        sum(at - 3600.0 < other <= at for other in times) <= limits.per_hour for at in times
    )


@given(clusters())
@settings(max_examples=60)
def test_no_two_jobs_preempt_each_other(cluster: SimulatedCluster) -> None:
    for _ in range(60):
        cluster.step()
    pairs = {(by.key, victim.key) for _, by, victim in cluster.stopped}
    assert not any((victim, by) in pairs for by, victim in pairs)
    assert all(victim.priority < by.priority for _, by, victim in cluster.stopped)
