"""The process that reconciles Slurm with Berth many times a second.

It holds the lease of the backend (`services.backend_holders`), so it is the only one. It reads its
whole state again in every tick, from Slurm and from PostgreSQL, so it may die and start at any
moment. While Slurm does not answer, nothing changes in Berth; while Berth is down, Slurm runs on.

A process that was paused for longer than its lease changes no job: directly before each program
that changes jobs, it renews the lease of the backend, which fails if the lease has expired or
another process has taken the backend over since the jobs were read. A program is ended after
`commands.TIMEOUT_S`, before the renewed lease expires. One window remains, as Slurm does not know
the token: if the process is paused between the renewal and the answer of the program, and its
successor takes over meanwhile, the change may reach a job that the successor has started. The
pause must be longer than the lease, or the database must have ended the session of the process.
"""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from apps.common.core.errors import ConflictError
from apps.execution.backends.foreign_schedulers import Holder
from apps.execution.backends.slurm.commands import Slurm, SlurmAwayError
from apps.execution.core.migration import MigrationOutcome
from apps.execution.core.port import SuspensionReport
from apps.execution.core.slurm.answers import AnswerError
from apps.execution.core.slurm.edits import Change, Edit, has_started, why_not_stopped
from apps.execution.core.slurm.reconcile import Step, Verb, end_of, steps
from apps.execution.core.slurm.shapes import why_not
from apps.execution.core.slurm.values import Phase, SlurmJob, SlurmNode
from apps.execution.selectors.slurm import KnownJob, known_jobs
from apps.execution.services import slurm as services
from apps.execution.services.launches import request_launches
from apps.execution.services.slurm_usage import record_usage
from apps.execution.services.suspension import GIVEN_UP, OBSERVED, record_suspensions
from apps.inventory.core.backends import SLURM

logger = logging.getLogger("berth.slurm")

NODES_S: Final = 2.0  # wall seconds between two looks at the nodes
USAGE_S: Final = 15.0
RENEW_S: Final = 5.0
MAX_LAUNCHES: Final = 1000  # requested at a time
MAX_IMPORTS: Final = 200  # at a time, so that the first of many are placed early
AGAIN_S: Final = 15.0  # wall seconds until a refused job is submitted again
ASK_S: Final = 0.1  # wall seconds from one look at the jobs to the next
SHARE: Final = 2.0  # asking Slurm for its jobs takes at most half of the time
AWAY_S: Final = 2.0  # between two attempts while Slurm does not answer
ACCOUNTING_S: Final = 30.0  # likewise of its accounting, which may take long to fail

_EDITS: Final = {
    Verb.HOLD: Change.HOLD,
    Verb.STOP: Change.STOP,
    Verb.STOPPED: Change.CLEAR,
}
_GIVEN_UP: Final = {
    Verb.REFUSED: MigrationOutcome.FAILED,
    Verb.STAY: MigrationOutcome.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Options:
    """How jobs of Slurm become jobs of Berth.

    Attributes
    ----------
    project : of the jobs whose account is no project that their user submits to
    alive_file : written in every tick, so that the hook holds no job while Berth is down
    """

    project: str = "default"
    alive_file: Path | None = None


@dataclass(frozen=True, slots=True)
class _Case:
    """One job, as Slurm and as Berth know it."""

    job: SlurmJob | None
    known: KnownJob | None


@dataclass
class SlurmBackend:
    """Implements `backends.runner.Ticking`."""

    slurm: Slurm
    worker: str
    options: Options = field(default_factory=Options)
    _nodes: Sequence[SlurmNode] = ()
    _known: Mapping[int, KnownJob] = field(default_factory=dict)
    _held: Mapping[int, SlurmJob] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make what the backend holds and reports by."""
        self._holder = Holder(SLURM, self.worker, logger)
        self.slurm.before_change = lambda: self._holder.renew(())

    def hold(self) -> None:
        """Become the process that runs this backend; raises what `Holder.hold` raises."""
        self._holder.hold()

    @property
    def running(self) -> int:
        """Number of jobs that Slurm runs for Berth."""
        return sum(case.known.is_running for case in self._known.values())

    def resume(self, wall_s: float) -> None:
        """Go on after the database was away; everything is read again in each tick."""

    def tick(self, wall_s: float) -> None:
        """Read the jobs of Slurm and reconcile them; logs once that Slurm does not answer."""
        if self._holder.is_due("renew", wall_s, RENEW_S):
            self._holder.renew(case.launch for case in self._known.values())
        try:
            if self._holder.is_postponed("ask", wall_s):
                self._place_held()
                return
            self._compare(wall_s)
        except (SlurmAwayError, AnswerError) as error:
            self._holder.log_once("slurm", str(error))
            self._held = {}
            self._holder.postpone("ask", time.monotonic() + AWAY_S)
            return
        self._holder.log_once("slurm", "")
        if self.options.alive_file is not None:
            write_alive(self.options.alive_file)

    def _compare(self, wall_s: float) -> None:
        if self._holder.is_due("nodes", wall_s, NODES_S) or not self._nodes:
            self._sync_nodes()
        begun_s = time.monotonic()
        jobs = {job.id: job for job in self.slurm.jobs()}
        pause_s = max(ASK_S, SHARE * (time.monotonic() - begun_s))
        self._holder.postpone("ask", begun_s + pause_s)
        self._held = {job.id: job for job in jobs.values() if job.is_held and job.is_marked}
        request_launches(SLURM, limit=MAX_LAUNCHES)
        self._known = known_jobs()
        forgotten = self._known.keys() - jobs.keys()
        ended = self._ended(forgotten, wall_s)
        jobs |= ended or {}
        judged = self._known.keys() - (forgotten if ended is None else set())
        cases = {
            job: _Case(jobs.get(job), self._known.get(job)) for job in sorted(jobs.keys() | judged)
        }
        self._act(cases)
        if self._holder.is_due("usage", wall_s, USAGE_S):
            running = [j for j in self._known if j in jobs and jobs[j].phase is Phase.RUNNING]
            usage = self.slurm.usage(running)
            self._holder.write(lambda: record_usage(usage))
            listed = {f"job {job}" for job in jobs}
            self._holder.forget(lambda what: what.startswith("job ") and what not in listed)

    def _ended(self, forgotten: Collection[int], wall_s: float) -> dict[int, SlurmJob] | None:
        """Ask the accounting for jobs; None if it does not answer, or did not a moment ago."""
        if forgotten and self._holder.is_postponed("accounting", wall_s):
            return None
        found = self.slurm.ended(forgotten)
        if found is None:
            self._holder.postpone("accounting", time.monotonic() + ACCOUNTING_S)
        return found

    def _place_held(self) -> None:
        """Place what Berth has placed since Slurm was asked; it held these jobs a moment ago."""
        if not self._held:
            return
        request_launches(SLURM, limit=MAX_LAUNCHES)
        cases = {
            job: _Case(self._held[job], known)
            for job, known in known_jobs().items()
            if job in self._held
            and steps(self._held[job], known.known)[:1]
            == [Step(Verb.PLACE, known.known.node or "")]
        }
        if cases:
            self._act(cases)

    def _sync_nodes(self) -> None:
        self._nodes = self.slurm.nodes()
        refused = services.sync_nodes(self._nodes)
        for name, why in refused.items():
            self._holder.log_once(f"node {name}", why)

    def _act(self, cases: Mapping[int, _Case]) -> None:
        """Do the steps of all jobs: first what Slurm must do, so that a crash repeats them."""
        by_verb: dict[Verb, dict[int, Step]] = defaultdict(dict)
        for job, case in cases.items():
            for step in steps(case.job, case.known.known if case.known else None):
                by_verb[step.verb][job] = step
        self._edit(by_verb)
        self.slurm.cancel(by_verb[Verb.CANCEL])
        self._suspend(by_verb, cases)
        self._restart(by_verb, cases)
        self._report(by_verb, cases)
        for job, step in by_verb[Verb.LOST].items():
            self._holder.requeue(_launch(cases[job]), step.text)
        for job in by_verb[Verb.ENDED_UNPLACED]:
            self._end_unplaced(cases[job])
        for job, step in by_verb[Verb.PIN].items():
            self._pin(cases[job], step.text)
        if by_verb[Verb.FORGET]:
            services.forget(by_verb[Verb.FORGET])
        self._import([cases[job].job for job in by_verb[Verb.IMPORT]])

    def _edit(self, by_verb: dict[Verb, dict[int, Step]]) -> None:
        """Hold, place and stop jobs; adds the steps that follow from what Slurm refuses."""
        edits = [Edit(job, change) for verb, change in _EDITS.items() for job in by_verb[verb]]
        placed = by_verb[Verb.PLACE]
        edits += [Edit(job, Change.PLACE, step.text) for job, step in placed.items()]
        refused = self.slurm.edit(edits)
        self._held = {job: row for job, row in self._held.items() if job not in placed}
        for job, why in refused.items():
            if job in placed and not has_started(why):
                by_verb[Verb.LOST][job] = Step(Verb.LOST, f"Slurm refused it: {why}")
            if job in by_verb[Verb.STOP] and not has_started(why):
                by_verb[Verb.REFUSED][job] = Step(Verb.REFUSED, why_not_stopped(why))

    def _restart(
        self, by_verb: Mapping[Verb, Mapping[int, Step]], cases: Mapping[int, _Case]
    ) -> None:
        """Report which jobs have stopped to restart, and which restarts are given up."""
        for verb, outcome in _GIVEN_UP.items():
            steps_by_job = by_verb.get(verb, {})
            self._holder.give_up_restarts(
                {
                    launch: step.text
                    for job, step in steps_by_job.items()
                    if (launch := _launch(cases[job])) is not None
                },
                outcome,
            )
        stopped = (_launch(cases[job]) for job in by_verb.get(Verb.STOPPED, {}))
        self._holder.report_stopped([launch for launch in stopped if launch is not None])

    def _suspend(
        self, by_verb: Mapping[Verb, Mapping[int, Step]], cases: Mapping[int, _Case]
    ) -> None:
        """Suspend and resume jobs, and report what Slurm has done; a refusal ends the request."""
        suspended = by_verb.get(Verb.SUSPEND, {})
        edits = [Edit(job, Change.SUSPEND) for job in suspended]
        edits += [Edit(job, Change.RESUME) for job in by_verb.get(Verb.RESUME, {})]
        refused = self.slurm.edit(edits)
        for job, why in refused.items():
            self._holder.log_once(f"job {job}", f"Slurm did not suspend or resume it: {why}")
        at_s = self._holder.cluster_s(None)
        reports = [
            SuspensionReport(launch, at_s, is_suspended)
            for verb, is_suspended in ((Verb.SUSPENDED, True), (Verb.RESUMED, False))
            for job in by_verb.get(verb, {})
            if (launch := _launch(cases[job])) is not None
        ]
        given_up = [
            SuspensionReport(launch, at_s, is_suspended=False)
            for job in suspended
            if job in refused and (launch := _launch(cases[job])) is not None
        ]
        if reports:
            self._holder.write(lambda: record_suspensions(reports, accepted=OBSERVED))
        if given_up:
            self._holder.write(lambda: record_suspensions(given_up, accepted=GIVEN_UP))

    def _report(
        self, by_verb: Mapping[Verb, Mapping[int, Step]], cases: Mapping[int, _Case]
    ) -> None:
        """Report starts, then ends; what has ended had started."""
        ended = {
            launch: (case.job.ended_s if case.job else None, end_of(case.job))
            for job in by_verb.get(Verb.ENDED, {})
            for case in [cases[job]]
            if (launch := _launch(case)) is not None
        }
        started = {
            launch: case.job.started_s if case.job else None
            for job in [*by_verb.get(Verb.STARTED, {}), *by_verb.get(Verb.ENDED, {})]
            for case in [cases[job]]
            if (launch := _launch(case)) is not None
        }
        self._holder.report_started(started)
        self._holder.report_ended(ended)

    def _end_unplaced(self, case: _Case) -> None:
        if case.known is None:
            return
        known, end = case.known, end_of(case.job)
        at_s = self._holder.cluster_s(case.job.ended_s if case.job else None)
        self._holder.write(lambda: services.end_unplaced(known.job, end, at_s=at_s))

    def _pin(self, case: _Case, node: str) -> None:
        if case.known is None or case.job is None:
            return
        known = case.known
        where = services.constraints_of(case.job, self._nodes, node=node or None)
        self._holder.write(lambda: services.pin(known.slurm_id, known.job, where, node))

    def _import(self, found: Iterable[SlurmJob | None]) -> None:
        """Submit new jobs to Berth, and leave those to Slurm that Berth cannot place."""
        new = [job for job in found if job is not None]
        left = {job.id: why for job in new if (why := why_not(job, self._nodes))}
        for job_id, why in left.items():
            self._holder.log_once(f"job {job_id}", f"{why}; left to Slurm")
        self.slurm.edit([Edit(job_id, Change.LEAVE) for job_id in left])
        now_s = time.monotonic()
        jobs = [
            job
            for job in new
            if job.id not in left and not self._holder.is_postponed(f"job {job.id}", now_s)
        ]
        for submitter, group in services.by_submitter(jobs[:MAX_IMPORTS]).items():
            self._submit(submitter, group)

    def _submit(self, submitter: services.Submitter, jobs: Sequence[SlurmJob]) -> None:
        """Submit jobs of one user; if one is refused, each alone: it holds back no other."""
        try:
            self._holder.write(
                lambda: services.import_jobs(
                    submitter, jobs, self._nodes, default_project=self.options.project
                )
            )
        except ConflictError as error:
            if len(jobs) > 1:
                for job in jobs:
                    self._submit(submitter, [job])
                return
            self._holder.postpone(f"job {jobs[0].id}", time.monotonic() + AGAIN_S)
            self._holder.log_once(f"job {jobs[0].id}", f"{error}; it stays held")


def write_alive(file: Path) -> None:
    """Write the Unix time in place: the hook may read at any moment, and never finds it empty."""
    text = f"{time.time():.0f}\n".encode()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, text)
        os.ftruncate(descriptor, len(text))
    finally:
        os.close(descriptor)


def _launch(case: _Case) -> int | None:
    return None if case.known is None else case.known.launch
