"""The loop of a backend, with a tick every 100 ms of wall time; tolerates database outages."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from apps.common.core.errors import ControlPlaneError
from apps.common.infrastructure.stop_signal import StopSignal
from apps.execution.backends.emulated.port import NoServersError
from apps.execution.services.backend_holders import BackendHeldError

logger = logging.getLogger(__name__)

TICK_S: Final = 0.1
RETRY_S: Final = 0.5
AWAY_S: Final = 30.0
NO_SERVERS_S: Final = 1.0
STANDBY_S: Final = 1.0


class DatabaseAwayError(ControlPlaneError):
    """The database has not answered for too long."""


class Ticking(Protocol):
    """A backend that advances by ticks."""

    @property
    def running(self) -> int:
        """Number of jobs that run."""

    def resume(self, wall_s: float) -> None:
        """Go on after the database was away."""

    def tick(self, wall_s: float) -> None:
        """Do what there is to do now."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Clock, database errors and stop signal for the loop.

    Attributes
    ----------
    wall_s : seconds of a monotonic clock: a step of the wall clock changes no interval
    away : exceptions that mean that the database does not answer
    reconnect : close the broken connection
    stop : set to stop the loop; its `wait` is also the pause between ticks
    name : of the process, in its log
    tick_s : wall seconds from one tick to the next
    """

    wall_s: Callable[[], float]
    away: tuple[type[Exception], ...]
    reconnect: Callable[[], None]
    stop: StopSignal
    name: str = "emulator"
    tick_s: float = TICK_S


def run(
    create: Callable[[float], Ticking], environment: Environment, *, away_s: float = AWAY_S
) -> None:
    """Tick until `stop` is set; while another process runs the backend, wait to take it over.

    Raises
    ------
    DatabaseAwayError : the database did not answer for `away_s` wall seconds.
    """
    backend: Ticking | None = None
    last_answer_s = environment.wall_s()
    is_away = is_standby = False
    while not environment.stop.is_set():
        started_s = environment.wall_s()
        try:
            if backend is None:
                backend = create(started_s)
                is_standby = False
                logger.info("%s: %d jobs running", environment.name, backend.running)
            if is_away:
                backend.resume(started_s)
            backend.tick(started_s)
        except BackendHeldError as error:
            # what runs here may run elsewhere by now: forget it, and read it again as the holder
            if backend is not None or not is_standby:
                logger.warning("%s; waiting to take it over", error)
            backend, is_standby, is_away = None, True, False
            last_answer_s = environment.wall_s()
            environment.stop.wait(STANDBY_S)
            continue
        except NoServersError:
            # wait: a cluster may be imported at any time
            is_away, last_answer_s = False, environment.wall_s()
            environment.stop.wait(NO_SERVERS_S)
            continue
        except environment.away as error:
            is_away = True
            _wait_for_database(error, environment, last_answer_s, away_s)
            continue
        if is_away:
            logger.info("the database answers again, %d jobs running", backend.running)
        is_away, last_answer_s = False, environment.wall_s()
        environment.stop.wait(max(0.0, environment.tick_s - (last_answer_s - started_s)))


def _wait_for_database(
    error: Exception, environment: Environment, last_answer_s: float, away_s: float
) -> None:
    silent_s = environment.wall_s() - last_answer_s
    reason = str(error).strip().split("\n", maxsplit=1)[0]
    if silent_s >= away_s:
        raise DatabaseAwayError(
            f"the database has not answered for {silent_s:.0f} s ({reason});"
            f" the {environment.name} stops"
        ) from error
    logger.warning("the database does not answer (%s); trying again for %.0f s", reason, away_s)
    environment.reconnect()
    environment.stop.wait(RETRY_S)
