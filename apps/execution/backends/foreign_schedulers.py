"""What backends share whose jobs another scheduler runs: Slurm and Kubernetes."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from logging import Logger
from typing import Final

from django.db import InterfaceError, OperationalError, connection

from apps.common.infrastructure.stop_signal import StopSignal
from apps.common.infrastructure.transactions import retry_once
from apps.execution.backends.runner import Environment
from apps.execution.core.ends import End
from apps.execution.core.migration import MigrationOutcome
from apps.execution.core.port import EndReport, Outcome
from apps.execution.services.backend_holders import (
    HOLD_S,
    acquire_backend,
    as_holder,
    renew_backend,
)
from apps.execution.services.launch_reports import record_ended, record_started
from apps.execution.services.launches import release_jobs
from apps.execution.services.recovery import requeue_launch
from apps.execution.services.restarts import give_up_restarts, record_restarts
from apps.inventory.selectors import cluster_time

TICK_S: Final = 0.05


class Holder:
    """Holds one backend, and writes what the other scheduler has done.

    Parameters
    ----------
    backend : name, of `inventory.core.backends`
    worker : name of this process
    logger : of the backend
    """

    def __init__(self, backend: str, worker: str, logger: Logger) -> None:
        self._backend, self._worker, self._logger = backend, worker, logger
        self._token = 0
        self._next_s: dict[str, float] = defaultdict(float)
        self._logged: dict[str, str] = {}

    @retry_once
    def hold(self) -> None:
        """Become the process that runs the backend.

        Raises
        ------
        BackendHeldError : another process runs it.
        """
        self._token = acquire_backend(self._backend, worker=self._worker)

    def renew(self, launches: Iterable[int | None]) -> None:
        """Keep the backend, and the leases of these launches."""
        known = [launch for launch in launches if launch is not None]
        retry_once(renew_backend)(self._backend, self._token, known)

    def write(self, change: Callable[[], None]) -> None:
        """Run one change in a transaction of the holder; it ends with events, so it is alone."""

        @retry_once
        def transaction() -> None:
            with as_holder(self._backend, self._token):
                change()

        transaction()

    def report_started(self, started: Mapping[int, float | None]) -> None:
        """Report the starts of launches, in Unix seconds; None = not known, so now."""
        if not started:
            return
        at_s = {launch: self.cluster_s(unix_s) for launch, unix_s in started.items()}
        self.write(lambda: record_started(at_s, worker=self._worker, lease_s=HOLD_S))

    def report_ended(self, ended: Mapping[int, tuple[float | None, End]]) -> None:
        """Report the ends of launches, in Unix seconds; None = not known, so now."""
        reports = [
            EndReport(launch, self.cluster_s(unix_s), end.outcome, end.message, end.exit_code)
            for launch, (unix_s, end) in ended.items()
        ]
        if reports:
            self.write(lambda: record_ended(reports, release_jobs=release_jobs))

    def report_stopped(self, launches: Iterable[int]) -> None:
        """Report that launches were stopped now, as requested, so that their jobs restart."""
        at_s = self.cluster_s(None)
        reports = [EndReport(launch, at_s, Outcome.CANCELLED) for launch in launches]
        if reports:
            self.write(lambda: record_restarts(reports))
            # those whose new server went down meanwhile
            self.write(lambda: record_ended(reports, release_jobs=release_jobs))

    def give_up_restarts(self, messages: Mapping[int, str], outcome: MigrationOutcome) -> None:
        """Report why launches were not stopped to restart, by launch."""
        if messages:
            self.write(lambda: give_up_restarts(messages, outcome))

    def requeue(self, launch: int | None, message: str) -> None:
        """Give up a launch that was lost; its job is placed again."""
        if launch is not None:
            self.write(lambda: requeue_launch(launch, message))

    def cluster_s(self, unix_s: float | None) -> float:
        """Return the cluster time of a moment of another machine's clock; None = now."""
        now = cluster_time()
        age_s = 0.0 if unix_s is None else max(0.0, time.time() - unix_s)
        return now.cluster_s - age_s * now.speed

    def is_due(self, what: str, wall_s: float, every_s: float) -> bool:
        """Whether an activity is due, which then is next due ``every_s`` wall seconds later."""
        if wall_s < self._next_s[what]:
            return False
        self._next_s[what] = wall_s + every_s
        return True

    def postpone(self, what: str, until_s: float) -> None:
        """Make an activity due at this wall second; 0 = at once."""
        self._next_s[what] = until_s

    def is_postponed(self, what: str, wall_s: float) -> bool:
        """Whether an activity is not due yet."""
        return wall_s < self._next_s[what]

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """Drop the due times and the logged texts of activities whose objects are gone."""
        for known in (self._next_s, self._logged):
            for what in [what for what in known if is_gone(what)]:
                del known[what]

    def log_once(self, what: str, text: str) -> None:
        """Log a text when it changes; empty = the problem is over."""
        before = self._logged.get(what, "")
        if text == before:
            return
        self._logged[what] = text
        if text:
            self._logger.warning("%s: %s", what, text)
        else:
            self._logger.info("%s: resolved: %s", what, before)


def environment(name: str) -> Environment:
    """Return the environment of such a backend's loop, which SIGTERM and SIGINT end."""
    stop = StopSignal()
    stop.set_on_signals()
    return Environment(
        wall_s=time.monotonic,
        away=(OperationalError, InterfaceError),
        reconnect=connection.close,
        stop=stop,
        name=name,
        tick_s=TICK_S,
    )
