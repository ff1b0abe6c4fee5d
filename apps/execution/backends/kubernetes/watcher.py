"""A thread that keeps a mirror of one list: list, watch, and list again when it has expired."""

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

import numpy as np

from apps.common.core.errors import ControlPlaneError
from apps.execution.backends.kubernetes.cluster import Source
from apps.execution.core.kubernetes.backoff import delay_s
from apps.execution.core.kubernetes.mirror import ExpiredError, Mirror

logger = logging.getLogger("berth.kubernetes")


@dataclass
class Watcher:
    """Follows one source.

    Attributes
    ----------
    changed : set whenever the mirror has changed
    lists, expiries, failures : how often it listed, was told 410, and failed in a row
    error : what the last attempt failed with; empty = nothing
    """

    source: Source
    mirror: Mirror[Any]
    rng: np.random.Generator
    changed: Event
    lists: int = 0
    expiries: int = 0
    failures: int = 0
    error: str = ""
    _stop: Event = field(default_factory=Event)
    _open: Any = None  # the answer of the open watch
    _thread: Thread | None = None

    def start(self) -> None:
        """Follow the source in a thread of its own."""
        self._thread = Thread(target=self._run, name=f"watch-{self.source.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stop.set()
        if self._open is not None:
            with suppress(OSError, ValueError):
                self._open.shutdown()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.follow()
            except ExpiredError as error:
                self.expiries += 1
                logger.info("%s are listed again: %s", self.source.name, error)
                self.mirror.expire()
            except ControlPlaneError as error:
                self._wait(error)

    def _wait(self, error: ControlPlaneError) -> None:
        """Wait after a failure; the version stays, so the next watch continues."""
        self.failures += 1
        self.mirror.is_current = False
        if str(error) != self.error and not self._stop.is_set():
            self.error = str(error)
            logger.warning("%s", error)
        self._stop.wait(delay_s(self.failures, self.rng))

    def follow(self) -> None:
        """List if needed, then apply one watch until it ends.

        Raises
        ------
        ExpiredError : the version is too old: list again.
        ControlPlaneError : the API server does not answer, or refuses.
        """
        if not self.mirror.version:
            objects, version = self.source.list()
            self.mirror.replace(objects, version)
            self.lists += 1
            self._well()
        for event in self.source.watch(self.mirror.version, self._opened):
            self.mirror.apply(event)
            self.changed.set()
            if self._stop.is_set():
                return

    def _opened(self, answer: Any) -> None:
        self._open = answer
        self.mirror.is_current = True
        self._well()

    def _well(self) -> None:
        if self.error:
            logger.info("the API server answers again")
        self.failures, self.error = 0, ""
        self.changed.set()
