"""What jobs of a run reach and what they cost their neighbours, from the hidden truth."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, cast

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, EventKind
from apps.emulation.core.truth import Curves, Truth, interference_factor, unit_pressure
from apps.inventory.core.snapshot import Bools, Floats, Shorts
from apps.testbed.core.demo_cluster import DemoCluster
from apps.testbed.core.offline import JobArrival, OfflineReport

TARGET: Final = 0.95  # share of the speed that a job reaches alone on a middling unit
_ENDS, _STARTS = range(2)  # at the same time, a job ends before another one starts


class Stay(NamedTuple):
    """One job on its servers.

    parts : units by server
    """

    started_s: float
    ended_s: float
    parts: dict[int, int]
    truth: Truth


@dataclass(slots=True)
class _Server:
    """The jobs on one server: their units, and the sum of what all units cause."""

    units: dict[int, int] = field(default_factory=dict)
    caused: Floats = field(default_factory=lambda: np.zeros(N_SOURCES))


def neighbours_losses(stays: Sequence[Stay], server_units: Shorts) -> Floats:
    """(n,) speed that the neighbours of each job lose when it starts, in jobs.

    A neighbour that slows down by a tenth is 0.1; one that has only half of its units on the
    server, half of that. Pressure is Tarcil's Eq. 3, by the scores of the first phase of each job.
    O(n·k) for k neighbours.
    """
    lost = np.zeros(len(stays))
    servers: dict[int, _Server] = {}
    totals = [sum(stay.parts.values()) for stay in stays]
    for _, kind, job in sorted(_events(stays)):
        stay = stays[job]
        for server, units in stay.parts.items():
            here = servers.setdefault(server, _Server())
            if kind == _ENDS:
                del here.units[job]
                here.caused = here.caused - units * stay.truth.caused
                continue
            more = units * stay.truth.caused
            if here.units:
                slower = _slowdowns(here, stays, more, int(server_units[server]))
                shares = [held / totals[other] for other, held in here.units.items()]
                lost[job] += slower @ np.array(shares)
            here.units[job] = units
            here.caused = here.caused + more
    return lost


def _events(stays: Sequence[Stay]) -> Iterator[tuple[float, int, int]]:
    for job, stay in enumerate(stays):
        yield stay.started_s, _STARTS, job
        yield stay.ended_s, _ENDS, job


def _slowdowns(here: _Server, stays: Sequence[Stay], more: Floats, units: int) -> Floats:
    """(k,) share of their speed that neighbours lose by ``more`` pressure."""
    truths = [stays[other].truth for other in here.units]
    held = np.array([*here.units.values()])[:, None]
    own = held * np.array([truth.caused for truth in truths])
    tolerated = np.array([truth.tolerated for truth in truths])
    curves = _curves_of(truths)
    before = interference_factor(unit_pressure(here.caused, own, units), tolerated, curves)
    after = interference_factor(unit_pressure(here.caused + more, own, units), tolerated, curves)
    return 1.0 - after / before


def _curves_of(truths: Sequence[Truth]) -> Curves:
    """Return the curves of several applications, one row each."""
    knee, decay, plateau, floor = (
        np.array([getattr(truth.curves, name) for truth in truths])
        for name in ("knee", "decay", "plateau", "floor")
    )
    return Curves(knee, decay, plateau, cast("float", floor))


class Isolation:
    """Run times of jobs alone on a cluster whose servers all have the speed of their platform."""

    def __init__(self, world: DemoCluster) -> None:
        self._world = world
        machines = replace(world.machines, speed=np.ones_like(world.machines.speed))
        self._engine = Engine(machines, np.random.default_rng(0))
        self._number = 0

    def run_s(self, truth: Truth, work_s: float, parts: dict[int, int]) -> float:
        """Return the run time on these units without neighbours, in cluster seconds.

        Raises
        ------
        ValueError : the job never ends.
        """
        began, self._number = self._engine.now, self._number + 1
        order = EngineOrder(self._number, truth, list(parts.items()), work_s)
        self._engine.start([order], began)
        while (at := self._engine.next_event_s) < np.inf:
            for event in self._engine.advance(at):
                if event.kind is EventKind.FINISHED:
                    return event.at_s - began
        raise ValueError(f"{truth.name} never ends")

    def fastest(self, truth: Truth, units: int) -> dict[int, int]:
        """Return units by server, on the platforms that are the fastest for an application."""
        topology, left = self._world.topology, units
        speed = truth.platform_speed[topology.server_platform]
        parts: dict[int, int] = {}
        for server in np.lexsort((-topology.server_units, -speed)).tolist():
            parts[server] = min(left, int(topology.server_units[server]))
            left -= parts[server]
            if not left:
                break
        return parts

    def target_s(self, truth: Truth, fastest_s: float) -> float:
        """Return the longest time from arrival to end that meets the target of a job.

        A job asks for `TARGET` of the speed that it reaches alone on units of the median speed of
        the cluster.
        """
        topology = self._world.topology
        speed = truth.platform_speed[topology.server_platform]
        middling = float(np.median(np.repeat(speed, topology.server_units)))
        return fastest_s * float(speed.max()) / middling / TARGET


class Reached(NamedTuple):
    """What n jobs reached.

    Attributes
    ----------
    alone : (n,) speed relative to the same platforms without neighbours
    overall : (n,) speed from arrival to end
    met : (n,) whether that meets the target
    lost : (n,) speed that neighbours lost when the job started, in jobs
    waited_s : (n,) cluster seconds from arrival to start
    """

    alone: Floats
    overall: Floats
    met: Bools
    lost: Floats
    waited_s: Floats


def performances(
    world: DemoCluster, jobs: list[JobArrival], report: OfflineReport, after_s: float
) -> Reached:
    """Return what the jobs that arrived after ``after_s`` reached."""
    owner, isolation = world.topology.unit_server, Isolation(world)
    parts = {
        d.placed.job: dict(Counter(owner[d.placed.units].tolist()))
        for d in report.decisions
        if d.is_committed
    }
    stays = [
        Stay(record.started_s, record.ended_s, parts[record.job], job.truth)
        for job, record in zip(jobs, report.jobs, strict=True)
    ]
    losses = neighbours_losses(stays, world.topology.server_units)
    rows = []
    for job, record, stay, lost in zip(jobs, report.jobs, stays, losses, strict=True):
        if job.at_s < after_s:
            continue
        alone_s = isolation.run_s(job.truth, job.work_s, stay.parts)
        fastest = isolation.fastest(job.truth, job.request.units)
        fastest_s = isolation.run_s(job.truth, job.work_s, fastest)
        ideal_s = fastest_s if job.request.gang else job.work_s * _phases(job.truth)
        took_s = record.ended_s - record.arrived_s
        is_met = took_s <= isolation.target_s(job.truth, fastest_s)
        run_s = record.ended_s - record.started_s
        waited_s = record.started_s - record.arrived_s
        rows.append((alone_s / run_s, ideal_s / took_s, is_met, lost, waited_s))
    alone, overall, met, *others = map(np.array, zip(*rows, strict=True))
    return Reached(alone, overall, met.astype(np.bool_), *others)


def _phases(truth: Truth) -> float:
    """Return the seconds per unit of work, averaged over the phases."""
    shares = np.diff(np.append(truth.phases.starts, 1.0))
    return float((shares / truth.phases.rate).sum())
