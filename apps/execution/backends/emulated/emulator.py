"""One process that plays all the servers: claims work, lets it run in cluster time, reports.

Pure but for the port: the wall time is an argument, the control plane a `ControlPlane`. A tick
that fails half-way is repeated by the next: what happened in the engine stays in the outbox until
the control plane has taken it.
"""

import logging
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from apps.emulation.core.draws import LATENCY_CRITICAL, SINGLE_NODE, application_truth
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EventKind
from apps.emulation.core.probe import FAILURES
from apps.emulation.core.seeds import generator
from apps.emulation.core.truth import Truth
from apps.execution.backends.emulated.migrating import Migrating
from apps.execution.backends.emulated.orders import UnknownServerError, engine_order
from apps.execution.backends.emulated.port import (
    ControlPlane,
    Counters,
    EndReport,
    JobReport,
    LaunchOrder,
    Outbox,
    ProfilingOrder,
)
from apps.execution.backends.emulated.probing import Probing
from apps.inventory.core.snapshot import Ints
from apps.workloads.core.attainment import Performance

logger = logging.getLogger(__name__)

LAUNCHES_PER_TICK: Final = 500
MOVES_PER_TICK: Final = 200
PROFILING_PER_TICK: Final = 8  # begun, some 2 ms each
REPORTS_PER_TICK: Final = 6  # profiling runs handed in, a transaction each
PROBE_FAILURES: Final = FAILURES
PATIENCE_S: Final = 30.0  # wall seconds a launch may wait for units its predecessor still holds


@dataclass(frozen=True, slots=True)
class Pace:
    """How often what is done, in wall seconds.

    Attributes
    ----------
    look_s : clock, servers, cancellations
    jobs_s : every running job reports once in this time, a slice of them at each `slice_s`
    servers_s : heartbeat and use of all servers
    """

    look_s: float = 0.5
    jobs_s: float = 5.0
    slice_s: float = 0.5
    servers_s: float = 2.0


@dataclass(slots=True)
class _Blocked:
    launch: LaunchOrder
    until_wall_s: float


class Emulator:
    """The emulated backend between two ticks."""

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        wall_s: float,
        pace: Pace | None = None,
        probe_failures: float = PROBE_FAILURES,
    ) -> None:
        self._plane = control_plane
        self._failures = probe_failures
        self._pace = pace or Pace()
        self._clock = control_plane.clock()
        self._site = control_plane.site()
        self._index = _positions(self._site.server_id)
        self._engine = self._new_engine()
        self._engine.advance(self._clock.at(wall_s))
        self._truths: dict[tuple[str, str], Truth] = {}
        self._live: dict[int, LaunchOrder] = {}
        self._outbox = Outbox()
        self._blocked: dict[int, _Blocked] = {}
        self._migrating = Migrating(
            self._engine, self._site, self._outbox.moves, patience_s=PATIENCE_S
        )
        self._probing: dict[UUID, Probing] = {}
        self._turn: deque[int] = deque()
        self._due = dict.fromkeys(("look", "slice", "servers"), wall_s)
        self.resume(wall_s)

    @property
    def running(self) -> int:
        """Jobs on the emulated servers now."""
        return len(self._engine)

    def resume(self, wall_s: float) -> None:
        """Take up what the control plane says is running here and is not."""
        lost = [order for order in self._plane.live_launches() if order.launch not in self._live]
        gone = {report.launch for report in self._outbox.ended}
        told = dict(self._outbox.started)
        self._start([order for order in lost if order.launch not in gone], wall_s)
        self._outbox.started = told  # they run since they were first started, not since now
        if lost:
            logger.info("resumed %d running jobs", len(lost))

    def tick(self, wall_s: float) -> None:
        """Let cluster time pass up to now, then talk to the control plane."""
        if self._is_due("look", wall_s, self._pace.look_s):
            self._look(wall_s)
        self._pass_time(wall_s)
        waiting, self._blocked = self._blocked, {}
        for blocked in waiting.values():
            self._start([blocked.launch], wall_s, until_wall_s=blocked.until_wall_s)
        self._start(self._unknown(self._plane.claim_launches(LAUNCHES_PER_TICK)), wall_s)
        self._move(wall_s)
        self._deliver()
        self._profile()
        if self._is_due("slice", wall_s, self._pace.slice_s):
            self._report_slice()
        if self._is_due("servers", wall_s, self._pace.servers_s):
            self._drop_ended()
            now, servers = self._engine.now, self._site.server_id
            self._plane.report_servers(now, servers, self._engine.servers())

    def _look(self, wall_s: float) -> None:
        """Notice what changed: the clock, the servers, wishes to cancel."""
        self._clock = self._plane.clock()
        if self._plane.site_version() != self._site.version:
            self._pass_time(wall_s)
            self._rebuild(wall_s)
        wanted = self._plane.cancelled_launches()
        self._pass_time(wall_s)
        for launch in wanted:
            self._cancel(launch)
        self._stop_probing()

    def _pass_time(self, wall_s: float) -> None:
        # the clock may be stopped or set back; cluster time never goes back here
        now = max(self._engine.now, self._clock.at(wall_s))
        for event in self._engine.advance(now):
            if not isinstance(event.key, int):
                continue
            if event.kind is EventKind.FINISHED:
                self._end(EndReport(event.key, event.at_s, "finished"))
            elif event.kind is EventKind.MOVED:
                launch = self._live[event.key]
                self._live[event.key] = self._migrating.arrived(launch, event.at_s)

    def _unknown(self, claimed: Sequence[LaunchOrder]) -> list[LaunchOrder]:
        """Leave out what is handed out again, as its start or end was not told yet."""
        ended = {report.launch for report in self._outbox.ended}
        return [x for x in claimed if x.launch not in ended and x.launch not in self._blocked]

    def _start(
        self, launches: Sequence[LaunchOrder], wall_s: float, *, until_wall_s: float | None = None
    ) -> None:
        now = self._engine.now
        for launch in launches:
            if launch.launch in self._live:
                continue
            try:
                order = engine_order(launch, self._truth(launch), self._index)
            except (UnknownServerError, ValueError) as error:
                self._fail(launch, str(error))
                continue
            if self._engine.fits(order):
                self._engine.start([order], now)
                self._live[launch.launch] = launch
                # first in turn, so that even a short job reports once
                self._turn.appendleft(launch.launch)
                self._outbox.started[launch.launch] = now
            else:
                self._wait(launch, wall_s, until_wall_s)

    def _wait(self, launch: LaunchOrder, wall_s: float, until_wall_s: float | None) -> None:
        """Keep a launch whose units are still held, for a while.

        Units are given on as soon as the control plane has released them, which it may have done
        before we have heard of the cancellation.
        """
        until = wall_s + PATIENCE_S if until_wall_s is None else until_wall_s
        if wall_s >= until:
            self._fail(launch, "its units were still held by another job on the server")
            return
        self._blocked[launch.launch] = _Blocked(launch, until)

    def _move(self, wall_s: float) -> None:
        """Begin the migrations that are wanted."""

        def truth_of(launch: int) -> Truth | None:
            return self._truth(self._live[launch]) if launch in self._live else None

        claimed = self._plane.claim_moves(MOVES_PER_TICK, doing=self._migrating.known)
        self._migrating.begin(claimed, truth_of, wall_s)

    def _cancel(self, launch: int) -> None:
        self._blocked.pop(launch, None)
        if launch in self._engine:
            self._engine.cancel(launch, self._engine.now)
        self._end(EndReport(launch, self._engine.now, "cancelled"))

    def _drop_ended(self) -> None:
        """Stop what the control plane gave up while this process was out of reach."""
        for launch in self._plane.ended_launches([*self._live, *self._blocked]):
            if launch in self._engine:
                self._engine.cancel(launch, self._engine.now)
            self._live.pop(launch, None)
            self._blocked.pop(launch, None)
            self._migrating.forget(launch)

    def _fail(self, launch: LaunchOrder, message: str) -> None:
        logger.warning("launch %d failed: %s", launch.launch, message)
        self._end(EndReport(launch.launch, self._engine.now, "failed", message))

    def _end(self, report: EndReport) -> None:
        self._live.pop(report.launch, None)
        self._migrating.forget(report.launch)
        self._outbox.ended.append(report)

    def _deliver(self) -> None:
        """Empty the outbox; whatever cannot be delivered stays in it."""
        if self._outbox.started:
            self._plane.report_started(dict(self._outbox.started))
            self._outbox.started.clear()
        if self._outbox.moves:
            self._plane.report_moves(tuple(self._outbox.moves))
            self._outbox.moves.clear()
        if self._outbox.ended:
            self._plane.report_ended(tuple(self._outbox.ended))
            self._outbox.ended.clear()

    def _report_slice(self) -> None:
        """Report the jobs whose turn it is, so that each has its turn once in `jobs_s`."""
        share = self._pace.slice_s / self._pace.jobs_s
        chosen: list[int] = []
        for _ in range(math.ceil(len(self._turn) * share)):
            launch = self._turn.popleft()
            if launch in self._live:
                chosen.append(launch)
        self._turn.extend(chosen)
        if chosen:
            self._plane.report_jobs(self._engine.now, self._reports(chosen))

    def _reports(self, launches: list[int]) -> list[JobReport]:
        seen = self._engine.jobs(launches)
        columns = (seen.progress, seen.progress_per_s, seen.metric, seen.latency_s)
        counted = (seen.memory_rate, seen.network_wait, seen.disk_wait, seen.traffic_bps)
        rows = zip(launches, *(column.tolist() for column in columns), strict=True)
        counters = zip(*(column.tolist() for column in counted), strict=True)
        cpu_shares = seen.cpu_share.tolist()
        return [
            JobReport(launch, _performance(self._live[launch], *numbers), cpu, Counters(*counts))
            for (launch, *numbers), cpu, counts in zip(rows, cpu_shares, counters, strict=True)
        ]

    def _profile(self) -> None:
        """Begin the profiling runs that are wanted, tell how far they are, hand in the results."""
        for order in self._plane.claim_profiling(PROFILING_PER_TICK, doing=self._probing.keys()):
            if order.run not in self._probing:
                self._begin_probing(order)
        steps = {run: one.until(self._engine.now) for run, one in self._probing.items()}
        over = [run for run, probing in self._probing.items() if probing.is_over]
        news = {run: step for run, step in steps.items() if step and run not in over}
        if news:
            self._plane.report_steps(news)
        for run in over[:REPORTS_PER_TICK]:
            self._hand_in(run, self._probing[run])
            del self._probing[run]

    def _hand_in(self, run: UUID, probing: Probing) -> None:
        if probing.failed:
            self._plane.report_failed(run, probing.at_s, probing.failed)
        else:
            self._plane.report_measurements(probing.report())

    def _begin_probing(self, order: ProfilingOrder) -> None:
        # another attempt is another run: what failed by chance must not fail again by the seed
        rng = generator(self._site.seed, "probe", str(order.seed), str(order.attempt))
        try:
            self._probing[order.run] = Probing(
                order, self._truth(order), rng, begun_s=self._engine.now, failures=self._failures
            )
        except ValueError as error:
            # its claim runs out, and after some of them the control plane gives it up; a platform
            # that was imported just now is known at the next try
            logger.warning("profiling of %s cannot be done: %s", order.application, error)

    def _stop_probing(self) -> None:
        """Stop the copies of profiling runs that somebody cancelled."""
        stopped = self._plane.profiling_to_stop(list(self._probing))
        for run in stopped:
            self._probing.pop(run, None)
        if stopped:
            self._plane.report_stopped(stopped)

    def _truth(self, order: LaunchOrder | ProfilingOrder) -> Truth:
        key = (order.application, order.kind)
        if key not in self._truths:
            platforms = self._site.machines.platforms
            self._truths[key] = application_truth(self._site.seed, *key, platforms)
        return self._truths[key]

    def _rebuild(self, wall_s: float) -> None:
        """Play the servers as they are now; what runs on those that stayed goes on."""
        launches = list(self._live.values())
        done = self._engine.jobs([launch.launch for launch in launches]).progress.tolist()
        now = self._engine.now
        self._site = self._plane.site()
        self._index = _positions(self._site.server_id)
        self._engine = self._new_engine()
        self._engine.advance(now)
        self._truths.clear()
        self._live.clear()
        self._turn.clear()
        pairs = zip(launches, done, strict=True)
        kept = [replace(launch, done_share=0.0 if math.isnan(x) else x) for launch, x in pairs]
        told = dict(self._outbox.started)
        self._start(kept, wall_s)
        self._outbox.started = told
        self._migrating.settle_on(self._engine, self._site)
        logger.info("the servers changed: %d jobs go on", self.running)

    def _new_engine(self) -> Engine:
        return Engine(self._site.machines, generator(self._site.seed, "monitors"))

    def _is_due(self, what: str, wall_s: float, every_s: float) -> bool:
        if wall_s < self._due[what]:
            return False
        self._due[what] = wall_s + every_s
        return True


def _positions(server_id: Ints) -> dict[int, int]:
    return {server: position for position, server in enumerate(server_id.tolist())}


def _performance(
    launch: LaunchOrder, progress: float, per_s: float, metric: float, latency_s: float
) -> Performance:
    return Performance(
        progress=0.0 if math.isnan(progress) else progress,
        progress_per_s=per_s,
        qps=metric if launch.kind == LATENCY_CRITICAL else math.nan,
        latency_s=latency_s,
        ips=metric if launch.kind == SINGLE_NODE else math.nan,
    )
