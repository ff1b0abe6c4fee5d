"""The emulator's loop: a tick every 100 ms of wall time, patient with a database that is away."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final

from apps.common.core.errors import ControlPlaneError
from apps.execution.backends.emulated.emulator import Emulator
from apps.execution.backends.emulated.port import NoServersError

logger = logging.getLogger(__name__)

TICK_S: Final = 0.1
RETRY_S: Final = 0.5
AWAY_S: Final = 30.0
NO_SERVERS_S: Final = 1.0


class DatabaseAwayError(ControlPlaneError):
    """The database has not answered for too long."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What the loop needs of the world.

    Attributes
    ----------
    wall_s : Unix seconds now
    away : exceptions that mean that the database does not answer
    reconnect : drop what is left of the connection
    stop : set when the process is asked to end; its `wait` is also the loop's pause
    """

    wall_s: Callable[[], float]
    away: tuple[type[Exception], ...]
    reconnect: Callable[[], None]
    stop: Event


def run(make: Callable[[float], Emulator], outside: Outside, *, away_s: float = AWAY_S) -> None:
    """Tick until asked to stop.

    Raises
    ------
    DatabaseAwayError : the database did not answer for `away_s` wall seconds.
    """
    emulator: Emulator | None = None
    last_answer_s = outside.wall_s()
    is_away = False
    while not outside.stop.is_set():
        started_s = outside.wall_s()
        try:
            if emulator is None:
                emulator = make(started_s)
                logger.info("emulating, %d jobs running", emulator.running)
            if is_away:
                emulator.resume(started_s)
            emulator.tick(started_s)
        except NoServersError:
            # an empty cluster is no fault: somebody may import one at any moment
            is_away, last_answer_s = False, outside.wall_s()
            outside.stop.wait(NO_SERVERS_S)
            continue
        except outside.away as error:
            is_away = True
            _wait_for_database(error, outside, last_answer_s, away_s)
            continue
        if is_away:
            logger.info("the database answers again, %d jobs running", emulator.running)
        is_away, last_answer_s = False, outside.wall_s()
        outside.stop.wait(max(0.0, TICK_S - (last_answer_s - started_s)))


def _wait_for_database(
    error: Exception, outside: Outside, last_answer_s: float, away_s: float
) -> None:
    silent_s = outside.wall_s() - last_answer_s
    reason = str(error).strip().split("\n", maxsplit=1)[0]
    if silent_s >= away_s:
        raise DatabaseAwayError(
            f"the database has not answered for {silent_s:.0f} s ({reason}); the emulator stops"
        ) from error
    logger.warning("the database does not answer (%s); trying again for %.0f s", reason, away_s)
    outside.reconnect()
    outside.stop.wait(RETRY_S)
