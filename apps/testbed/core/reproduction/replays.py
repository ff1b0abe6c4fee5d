"""Replays of a scenario of a paper: the same jobs, applications and profiles for every policy.

n jobs, h holds (the part of a job on one server).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.emulation.core.truth import Truth
from apps.emulation.core.worlds import world_named
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.sizing.sizes import Infeasible
from apps.scheduling.core.tarcil import encoding
from apps.testbed.core.demo_cluster import DemoCluster, cluster_of
from apps.testbed.core.replay.demand import Demand, LazyFacts, SizedRequest
from apps.testbed.core.replay.loop import ReplayLoop
from apps.testbed.core.replay.model import Admission, ReplayCluster, ReplayOptions, ReplayResult
from apps.testbed.core.replay.results import result_of
from apps.testbed.core.replay.run import policy_named
from apps.testbed.core.replay.summary import Holds
from apps.testbed.core.replay.workloads import Workload

QOS: Final = 0.95  # of the performance alone on the best platform


class UnitQualities(NamedTuple):
    """Units in use: Q of each, and whether it is quiet enough for its job (U >= T)."""

    quality: Floats
    is_enough: Bools


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster and its jobs.

    Attributes
    ----------
    options : without policy and seed; the papers' systems let no job wait for better units
    reserved : (n,) units that the users reserved; None = no reservations
    """

    cluster: ReplayCluster
    load: Workload
    options: ReplayOptions = ReplayOptions(patience_s=0.0)  # noqa: RUF009 - immutable
    reserved: Ints | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """One run, with where its jobs were."""

    result: ReplayResult
    load: Workload
    emulated: DemoCluster
    truths: Sequence[Truth]
    holds: Holds

    @property
    def performance(self) -> Floats:
        """(n,) performance relative to alone on the best platform; 0 if it did not finish."""
        return np.nan_to_num(self.result.performance)

    @property
    def kept(self) -> float:
        """Percent of the jobs within 5 % of alone on the best platform."""
        return 100.0 * float((self.performance >= QOS).mean())

    @property
    def waited(self) -> float:
        """Percent of the jobs that waited, at least a second; those that never started did."""
        waits = self.result.started_s - self.result.arrived_s
        return 100.0 * float((~(waits < 1.0)).mean())

    def platform_speed(self) -> Floats:
        """(n,) speed of the platform of its first part relative to the best; 0 = not started."""
        speed = np.array([truth.platform_speed for truth in self.truths])
        kinds = self.emulated.machines.platform
        best = speed[:, np.unique(kinds)].max(axis=1)
        jobs, first = np.unique(self.holds.job, return_index=True)
        found = np.zeros(len(self.load))
        application = self.load.application[jobs]
        found[jobs] = speed[application, kinds[self.holds.server[first]]] / best[application]
        return found

    def near_best_share(self) -> float:
        """Percent of the units on platforms within 5 % of the best one, mean over the jobs."""
        speed = np.array([truth.platform_speed for truth in self.truths])
        speed = speed[:, self.emulated.machines.platform]
        near = speed >= QOS * speed.max(axis=1, keepdims=True)
        units = self.emulated.topology.server_units
        share = (near * units).sum(axis=1) / units.sum()
        return 100.0 * float(share[self.load.application].mean())

    def useful_share(self) -> float:
        """Percent of the unit-seconds, from first arrival to last end, that did requested work.

        In unit-seconds of the highest-end platform, so more units than a job needs do not count.
        """
        done = np.isfinite(self.result.ended_s)
        span = float(np.nanmax(self.result.ended_s) - self.load.arrival_s[0])
        units = float(self.emulated.topology.server_units.sum())
        return 100.0 * float(self.load.work_s[done].sum()) / (units * span)

    def busiest_s(self) -> float:
        """Return the time at which most units are held, the first if there are several."""
        at_s, held = self._held()
        return float(at_s[np.argmax(held)])

    def peak_share(self) -> float:
        """Percent of the units that are held when most are."""
        return 100.0 * float(self._held()[1].max() / self.emulated.topology.server_units.sum())

    def _held(self) -> tuple[Floats, Ints]:
        """Return times at which units are taken or freed, and the units held from then on."""
        at_s = np.concatenate((self.holds.to_s, self.holds.from_s))
        change = np.concatenate((-self.holds.units, self.holds.units))
        order = np.argsort(at_s, kind="stable")  # ends before starts of the same instant
        return at_s[order], np.cumsum(change[order])

    def qualities(self, at_s: float) -> UnitQualities:
        """Rate every unit held at a time for the job that holds it (Tarcil Eq. 3-5, T2).

        By the true scores, and the units of other jobs only; the monotone form, so that Q = 1 is
        exactly good enough.
        """
        now = (self.holds.from_s <= at_s) & (at_s < self.holds.to_s)
        server, units = self.holds.server[now], self.holds.units[now]
        truths = [self.truths[a] for a in self.load.application[self.holds.job[now]].tolist()]
        caused = np.array([truth.caused for truth in truths]).reshape(-1, N_SOURCES)
        total = np.zeros((self.emulated.topology.server_id.size, N_SOURCES))
        own = caused * units[:, None]
        np.add.at(total, server, own)
        found = []
        for s, others, truth in zip(server.tolist(), total[server] - own, truths, strict=True):
            size = self.emulated.topology.server_units[s : s + 1]
            demand = encoding.demand(truth.caused)
            pressure = encoding.pressure(others[None, :], size)
            quality = encoding.quality(np.minimum(pressure, 100.0), demand.order)
            close = encoding.closeness(quality, demand.target, encoding.Form.NEAREST)
            enough = encoding.is_at_least(quality, demand.target)
            found.append((float(close.shares()[0]), float(enough[0])))
        rows = np.repeat(np.array(found).reshape(-1, 2), units, axis=0)
        return UnitQualities(rows[:, 0], rows[:, 1] > 0.0)


class _Demand(Demand):
    """Jobs whose requests carry what the user reserved."""

    def __init__(self, scenario: Scenario, emulated: DemoCluster, options: ReplayOptions) -> None:
        super().__init__(scenario.load, scenario.cluster, emulated, options)
        self._reserved = scenario.reserved

    def request(self, job: int, now: float, facts: LazyFacts) -> SizedRequest | Infeasible:
        """Size a job for its target, and build its request."""
        sized = super().request(job, now, facts)
        if self._reserved is None or isinstance(sized, Infeasible):
            return sized
        request = replace(sized.request, reserved=int(self._reserved[job]))
        return sized._replace(request=request)


def replayed(scenario: Scenario, policy: str, seed: int) -> Replayed:
    """Run one policy."""
    cluster, load = scenario.cluster, scenario.load
    options = replace(scenario.options, policy=policy, seed=seed)
    emulated = cluster_of(
        cluster.platforms, cluster.platform, cluster.rack, seed, world_named(options.world)
    )
    demand = _Demand(scenario, emulated, options)
    loop = ReplayLoop(emulated, demand, policy_named(policy), options)
    for _ in loop.turns():
        pass
    holds = Holds.of(loop.holds, loop.engine.now)
    return Replayed(
        result_of(loop, demand, emulated.machines, float("nan")),
        load, emulated, demand.truths, holds,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variant:
    """A policy as a paper runs it.

    Attributes
    ----------
    label : for readers
    decision_s : time that the decision on a job takes; jobs are then decided one after the other
    """

    label: str
    policy: str
    admission: Admission = Admission.SHAPES
    decision_s: float = 0.0

    def run(self, scenario: Scenario, seed: int) -> Replayed:
        """Run it on a scenario; what it does not state follows the options of the scenario."""
        options = replace(scenario.options, admission=self.admission, decision_s=self.decision_s)
        if self.decision_s > 0.0:  # else a job would start only after those decided with it
            options = replace(options, batch=1)
        return replayed(replace(scenario, options=options), self.policy, seed)
