"""The copy of the cluster by which the extender rates nodes; a thread keeps it up to date.

No request waits for the database: it uses the last copy, or gets an error if there is none.
"""

import logging
import time
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Final

from django.db import DatabaseError, InterfaceError, connection

from apps.classification.core.profile import Profile
from apps.classification.selectors import profile_named
from apps.execution.core.kubernetes.extender import View, view_of
from apps.scheduling.selectors import ClusterFollower

logger = logging.getLogger("berth.kubernetes")

REFRESH_S: Final = 0.5
STALE_S: Final = 60.0  # an older copy judges nothing
PROFILE_S: Final = 60.0  # after which a profile is read again
MAX_PROFILES: Final = 1000  # kept, of the applications that were asked for last


@dataclass
class Views:
    """The last copy of the cluster, and the profiles of the applications that were asked for."""

    _follower: ClusterFollower = field(default_factory=ClusterFollower)
    _view: View | None = None
    _read_at: float = 0.0
    # by name, least recently asked for first; the time is None until it was read
    _profiles: dict[str, tuple[Profile | None, float | None]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _stop: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def current(self, now_s: float) -> View | None:
        """Return the last copy; None if there is none, or it is too old."""
        with self._lock:
            return None if now_s > self._read_at + STALE_S else self._view

    def profile(self, application: str | None) -> Profile | None:
        """Return the profile of an application; None if it has none, or none was read yet."""
        if application is None:
            return None
        with self._lock:
            found = self._profiles.pop(application, (None, None))
            if len(self._profiles) >= MAX_PROFILES:
                del self._profiles[next(iter(self._profiles))]
            self._profiles[application] = found
            return found[0]

    def refresh(self) -> None:
        """Read the changes of the cluster, and the profiles that are missing or old."""
        view = view_of(self._follower.follow().snapshot())
        now_s = time.monotonic()
        with self._lock:
            self._view, self._read_at = view, now_s
            due = [
                name
                for name, (_, read_s) in self._profiles.items()
                if read_s is None or now_s > read_s + PROFILE_S
            ]
        for name in due:
            found = profile_named(name)
            with self._lock:
                if name in self._profiles:  # not evicted meanwhile
                    self._profiles[name] = (found, now_s)

    def start(self) -> None:
        """Refresh in a thread of its own."""
        self._thread = Thread(target=self._run, name="extender-views", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self.refresh()
                except (DatabaseError, InterfaceError) as error:
                    logger.warning("the extender cannot read the cluster: %s", error)
                    connection.close()
                self._stop.wait(REFRESH_S)
        finally:
            connection.close()
