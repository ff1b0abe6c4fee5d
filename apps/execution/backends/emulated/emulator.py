"""One process that emulates all servers: claims work, runs it in cluster time, and reports.

Pure apart from the port: the wall time is an argument, in seconds of a monotonic clock, and the
control plane a `ControlPlane`. If a tick fails, the next one repeats its reports, which stay in
the outbox until the control plane confirms them.
"""

import logging
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EventKind, ServerReadings
from apps.emulation.core.probe_runs import FAILURES
from apps.emulation.core.seeds import generator
from apps.emulation.core.truth import Truth
from apps.execution.backends.emulated.job_reports import job_reports
from apps.execution.backends.emulated.launch_delays import DelayedLaunches, LaunchDelay
from apps.execution.backends.emulated.migrations import Migrations
from apps.execution.backends.emulated.orders import (
    UnknownServerError,
    engine_order,
    resumed,
)
from apps.execution.backends.emulated.port import (
    ControlPlane,
    LaunchOrder,
    Outbox,
    ProfilingOrder,
)
from apps.execution.backends.emulated.probing import ProfilingSession
from apps.execution.core.port import EndReport
from apps.inventory.core.snapshot import Ints

logger = logging.getLogger(__name__)

LAUNCHES_PER_TICK: Final = 500
MIGRATIONS_PER_TICK: Final = 200
PROFILING_PER_TICK: Final = 8  # started runs, about 2 ms each
SERVERS_PER_TICK: Final = 2048  # reported servers, about 10 ms of PostgreSQL
SERVERS_AT_FULL_PACE: Final = 5_000  # those of larger clusters report less often
MAX_PARTS: Final = 10  # of a report of all servers: large clusters report more in a tick
REPORTS_PER_TICK: Final = 6  # completed profiling runs, a transaction each
PROBE_FAILURES: Final = FAILURES
PATIENCE_S: Final = 30.0  # max wall seconds a launch waits for units still in use


@dataclass(frozen=True, slots=True)
class Pace:
    """Periods of the emulator's activities, in wall seconds.

    Attributes
    ----------
    poll_s : clock, servers, cancellations
    jobs_s : every running job reports once per period, a slice of them every `slice_s`
    servers_s : launches that ended elsewhere; heartbeat and usage of all servers: see
        `servers_period_s`
    renew_s : leases of the backend and of its launches
    """

    poll_s: float = 0.5
    jobs_s: float = 5.0
    slice_s: float = 0.5
    servers_s: float = 2.0
    renew_s: float = 5.0

    def servers_period_s(self, servers: int) -> float:
        """Return the wall seconds between two reports of all servers: longer on large clusters.

        At most five times `servers_s`: a third of the time after which a server counts as silent.
        """
        return self.servers_s * min(5.0, max(1.0, servers / SERVERS_AT_FULL_PACE))


@dataclass(slots=True)
class _WaitingLaunch:
    """A launch whose units are still in use, or whose servers are not read yet."""

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
        launch_delay: LaunchDelay | None = None,
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
        self._waiting: dict[int, _WaitingLaunch] = {}
        self._delayed = DelayedLaunches(launch_delay, self._site.seed)
        self._migrations = Migrations(
            self._engine, self._site, self._outbox.migrations, patience_s=PATIENCE_S
        )
        self._sessions: dict[UUID, ProfilingSession] = {}
        self._turn: deque[int] = deque()
        self._readings: deque[tuple[float, Ints, ServerReadings]] = deque()
        self._due = dict.fromkeys(("renew", "poll", "slice", "ended", "servers"), wall_s)
        self.resume(wall_s)

    @property
    def running(self) -> int:
        """Number of running jobs."""
        return len(self._engine)

    def resume(self, wall_s: float) -> None:
        """Start the launches that run according to the control plane but not here."""
        lost = [order for order in self._plane.live_launches() if order.launch not in self._live]
        ended = {report.launch for report in self._outbox.ended}
        started = dict(self._outbox.started)
        self._start([order for order in lost if order.launch not in ended], wall_s)
        self._outbox.started = started  # the control plane knows their original start times
        if lost:
            logger.info("resumed %d running jobs", len(lost))

    def tick(self, wall_s: float) -> None:
        """Advance cluster time to now, then exchange orders and reports with the control plane."""
        if self._is_due("renew", wall_s, self._pace.renew_s):
            self._plane.renew([*self._live, *self._waiting, *self._delayed])
        # before time passes: these launches start between the last tick and this one
        self._claim(wall_s)
        if self._is_due("poll", wall_s, self._pace.poll_s):
            self._poll(wall_s)
        self._pass_time(wall_s)
        waiting, self._waiting = self._waiting, {}
        for entry in waiting.values():
            self._start([entry.launch], wall_s, until_wall_s=entry.until_wall_s)
        self._start_migrations(wall_s)
        self._deliver()
        self._profile()
        if self._is_due("slice", wall_s, self._pace.slice_s):
            self._report_slice()
        if self._is_due("ended", wall_s, self._pace.servers_s):
            self._drop_ended()
        servers_s = self._pace.servers_period_s(self._site.server_id.size)
        if not self._readings and self._is_due("servers", wall_s, servers_s):
            self._read_servers()
        if self._readings:
            self._plane.report_servers(*self._readings.popleft())

    def _claim(self, wall_s: float) -> None:
        """Claim launches, and start each at its own time."""
        self._delayed.add(self._unknown(self._plane.claim_launches(LAUNCHES_PER_TICK)))
        now = max(self._engine.now, self._clock.at(wall_s))
        for at_s, launch in self._delayed.due(now):
            self._advance(max(self._engine.now, at_s) if at_s > -math.inf else now)
            self._start([launch], wall_s)

    def _poll(self, wall_s: float) -> None:
        """Read the clock, the servers and the cancellations."""
        self._clock = self._plane.clock()
        if self._plane.site_version() != self._site.version:
            self._pass_time(wall_s)
            self._rebuild(wall_s)
        cancelled = self._plane.cancelled_launches()
        self._pass_time(wall_s)
        for launch in cancelled:
            self._cancel(launch)
        self._grow()
        self._stop_sessions()

    def _grow(self) -> None:
        """Add the units that jobs were given; those still in use are added by a later poll."""
        done = []
        for grown in self._plane.grown_launches():
            launch = self._live.get(grown.launch)
            if launch is None:
                continue
            added = grown.added_to(launch.parts)
            try:
                if added:
                    parts = [(self._index[server], units) for server, units in added]
                    self._engine.grow(launch.launch, parts, self._engine.now)
            except (KeyError, ValueError):
                continue  # a job is leaving the units, or servers were added just now
            self._live[launch.launch] = replace(launch, parts=grown.parts)
            done.append(grown)
        if done:
            self._plane.report_grown(self._engine.now, done)

    def _pass_time(self, wall_s: float) -> None:
        # the clock may be stopped or set back; the engine's time never decreases
        self._advance(max(self._engine.now, self._clock.at(wall_s)))

    def _advance(self, to_s: float) -> None:
        for event in self._engine.advance(to_s):
            if not isinstance(event.key, int):
                continue
            if event.kind is EventKind.FINISHED:
                self._end(EndReport(event.key, event.at_s, "finished"))
            elif event.kind is EventKind.MIGRATED:
                launch = self._live[event.key]
                self._live[event.key] = self._migrations.complete(launch, event.at_s)

    def _unknown(self, claimed: Sequence[LaunchOrder]) -> list[LaunchOrder]:
        """Filter out launches claimed again because their start or end is not reported yet."""
        ended = {report.launch for report in self._outbox.ended}
        known = (ended, self._live, self._waiting, self._delayed)
        return [order for order in claimed if not any(order.launch in each for each in known)]

    def _start(
        self, launches: Sequence[LaunchOrder], wall_s: float, *, until_wall_s: float | None = None
    ) -> None:
        now = self._engine.now
        for launch in launches:
            if launch.launch in self._live:
                continue
            try:
                order = engine_order(launch, self._truth(launch), self._index, self._site.seed)
            except UnknownServerError as error:
                if self._plane.site_version() == self._site.version:
                    self._fail(launch, str(error))
                else:  # an agent has read new servers before this process
                    self._due["poll"] = wall_s
                    self._wait(launch, wall_s, until_wall_s)
                continue
            except ValueError as error:
                self._fail(launch, str(error))
                continue
            started_s = now if launch.started_s is None else launch.started_s
            if self._engine.fits(order):
                self._engine.start([resumed(order, ran_s=now - started_s)], now)
                self._live[launch.launch] = replace(launch, started_s=started_s)
                # reports first, so that even a short job reports once
                self._turn.appendleft(launch.launch)
                self._outbox.started[launch.launch] = now
            else:
                self._wait(launch, wall_s, until_wall_s)

    def _wait(self, launch: LaunchOrder, wall_s: float, until_wall_s: float | None) -> None:
        """Let a launch wait up to `PATIENCE_S` for units that are still in use.

        The control plane may assign released units before this process has read that their job
        was cancelled.
        """
        until = wall_s + PATIENCE_S if until_wall_s is None else until_wall_s
        if wall_s >= until:
            self._fail(launch, "its units were still in use by another job")
            return
        self._waiting[launch.launch] = _WaitingLaunch(launch, until)

    def _start_migrations(self, wall_s: float) -> None:
        """Start the claimed migrations."""

        def truth_of(launch: int) -> Truth | None:
            return self._truth(self._live[launch]) if launch in self._live else None

        claimed = self._plane.claim_migrations(MIGRATIONS_PER_TICK, doing=self._migrations.known)
        self._migrations.begin(claimed, truth_of, wall_s)

    def _cancel(self, launch: int) -> None:
        self._waiting.pop(launch, None)
        self._delayed.forget(launch)
        if launch in self._engine:
            self._engine.cancel(launch, self._engine.now)
        self._end(EndReport(launch, self._engine.now, "cancelled"))

    def _drop_ended(self) -> None:
        """Stop launches that the control plane ended while this process was unreachable."""
        for launch in self._plane.ended_launches([*self._live, *self._waiting, *self._delayed]):
            if launch in self._engine:
                self._engine.cancel(launch, self._engine.now)
            self._live.pop(launch, None)
            self._waiting.pop(launch, None)
            self._delayed.forget(launch)
            self._migrations.forget(launch)

    def _fail(self, launch: LaunchOrder, message: str) -> None:
        logger.warning("launch %d failed: %s", launch.launch, message)
        self._end(EndReport(launch.launch, self._engine.now, "failed", message))

    def _end(self, report: EndReport) -> None:
        self._live.pop(report.launch, None)
        self._migrations.forget(report.launch)
        self._outbox.ended.append(report)

    def _deliver(self) -> None:
        """Deliver the outbox; a failed delivery leaves its reports in it."""
        started, ended = self._outbox.started, self._outbox.ended
        if self._outbox.migrations:  # of running launches: after the starts, before the ends
            if started:
                self._plane.report_launches(dict(started), ())
                started.clear()
            self._plane.report_migrations(tuple(self._outbox.migrations))
            self._outbox.migrations.clear()
        if started or ended:
            self._plane.report_launches(dict(started), tuple(ended))
            started.clear()
            ended.clear()

    def _read_servers(self) -> None:
        """Read the servers; each tick reports a part of them, so that jobs wait for none of it."""
        now, servers, readings = self._engine.now, self._site.server_id, self._engine.servers()
        size = max(SERVERS_PER_TICK, math.ceil(servers.size / MAX_PARTS))
        for begin in range(0, servers.size, size):
            part = slice(begin, begin + size)
            self._readings.append((now, servers[part], readings.of(part)))

    def _report_slice(self) -> None:
        """Report the next slice of jobs, so that each reports once per `jobs_s`."""
        share = self._pace.slice_s / self._pace.jobs_s
        chosen: list[int] = []
        for _ in range(math.ceil(len(self._turn) * share)):
            launch = self._turn.popleft()
            if launch in self._live:
                chosen.append(launch)
        self._turn.extend(chosen)
        if chosen:
            reports = job_reports(self._engine, [self._live[launch] for launch in chosen])
            self._plane.report_jobs(self._engine.now, reports)

    def _profile(self) -> None:
        """Start claimed profiling runs, and report their progress and results."""
        for order in self._plane.claim_profiling(PROFILING_PER_TICK, doing=self._sessions.keys()):
            if order.run not in self._sessions:
                self._start_session(order)
        now_s = self._engine.now
        steps = {run: session.until(now_s) for run, session in self._sessions.items()}
        over = [run for run, session in self._sessions.items() if session.is_over]
        progress = {run: step for run, step in steps.items() if step and run not in over}
        if progress:
            self._plane.report_progress(progress)
        for run in over[:REPORTS_PER_TICK]:
            self._report_result(run, self._sessions[run])
            del self._sessions[run]

    def _report_result(self, run: UUID, session: ProfilingSession) -> None:
        if session.failed:
            self._plane.report_failed(run, session.at_s, session.failed)
        else:
            self._plane.report_measurements(session.report())

    def _start_session(self, order: ProfilingOrder) -> None:
        # each attempt has its own stream: a random failure must not repeat
        rng = generator(self._site.seed, "probe", str(order.seed), str(order.attempt))
        try:
            self._sessions[order.run] = ProfilingSession(
                order, self._truth(order), rng, begun_s=self._engine.now, failures=self._failures
            )
        except ValueError as error:
            # the claim expires and is retried a few times: a platform imported just now is known
            # by then
            logger.warning("cannot profile %s: %s", order.application, error)

    def _stop_sessions(self) -> None:
        """Stop the copies of cancelled profiling runs."""
        stopped = self._plane.profiling_to_stop(list(self._sessions))
        for run in stopped:
            self._sessions.pop(run, None)
        if stopped:
            self._plane.report_stopped(stopped)

    def _truth(self, order: LaunchOrder | ProfilingOrder) -> Truth:
        key = (order.application, order.kind)
        if key not in self._truths:
            platforms = self._site.machines.platforms
            draw = self._site.world.application_truth
            self._truths[key] = draw(self._site.seed, *key, platforms)
        return self._truths[key]

    def _rebuild(self, wall_s: float) -> None:
        """Rebuild the engine for the current servers; jobs on servers that remain continue."""
        launches = list(self._live.values())
        done = self._engine.jobs([launch.launch for launch in launches]).progress.tolist()
        now = self._engine.now
        self._site = self._plane.site()
        self._readings.clear()  # some of these servers may be gone
        self._index = _positions(self._site.server_id)
        self._engine = self._new_engine()
        self._engine.advance(now)
        self._truths.clear()
        self._live.clear()
        self._turn.clear()
        pairs = zip(launches, done, strict=True)
        kept = [replace(launch, done_share=0.0 if math.isnan(x) else x) for launch, x in pairs]
        started = dict(self._outbox.started)
        self._start(kept, wall_s)
        self._outbox.started = started
        self._migrations.move_to(self._engine, self._site)
        logger.info("the servers changed: %d jobs continue", self.running)

    def _new_engine(self) -> Engine:
        return Engine(self._site.machines, generator(self._site.seed, "monitors"))

    def _is_due(self, activity: str, wall_s: float, every_s: float) -> bool:
        if wall_s < self._due[activity]:
            return False
        self._due[activity] = wall_s + every_s
        return True


def _positions(server_id: Ints) -> dict[int, int]:
    return {server: position for position, server in enumerate(server_id.tolist())}
