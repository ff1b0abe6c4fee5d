"""``run_emulator``: plays all servers of the inventory, in cluster time."""

import logging
import os
import signal
import socket
import time
from argparse import ArgumentParser
from threading import Event
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError, connection

from apps.execution.backends.emulated.control_plane import DatabaseControlPlane, Hooks
from apps.execution.backends.emulated.emulator import PROBE_FAILURES, Emulator
from apps.execution.backends.emulated.port import NoServersError
from apps.execution.backends.emulated.runner import AWAY_S, DatabaseAwayError, Outside, run

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    """Run the emulated backend until asked to stop."""

    help = "Emulate the servers: start, run and report jobs in cluster time."
    # the checks ask the database, which may be away for a while: the loop is patient, they are not
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--once", action="store_true", help="one tick, then end")
        parser.add_argument(
            "--patience",
            type=float,
            default=AWAY_S,
            help="wall seconds the database may be away before the process ends",
        )
        parser.add_argument(
            "--probe-failures",
            type=float,
            default=PROBE_FAILURES,
            help="share of profiling copies, and of ramps, that die",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Tick once, or until SIGTERM or SIGINT."""
        worker = f"emulator-{socket.gethostname()[:30]}-{os.getpid()}"
        plane = DatabaseControlPlane(worker=worker, hooks=_hooks())
        failures = options["probe_failures"]
        if not 0.0 <= failures <= 1.0:
            raise CommandError(f"--probe-failures must lie between 0 and 1, got {failures}")
        try:
            if options["once"]:
                now = time.time()
                Emulator(plane, wall_s=now, probe_failures=failures).tick(now)
                return
            run(
                lambda wall_s: Emulator(plane, wall_s=wall_s, probe_failures=failures),
                _outside(_stop_on_signal()),
                away_s=options["patience"],
            )
        except (DatabaseAwayError, NoServersError) as error:
            raise CommandError(str(error)) from error
        finally:
            connection.close()


def _hooks() -> Hooks:
    from apps.execution import services  # noqa: PLC0415

    return Hooks(
        request=lambda backend, limit: services.request_launches(backend, limit=limit),
        release=services.release_jobs,
        measured=services.take_measurements,
    )


def _outside(stop: Event) -> Outside:
    return Outside(
        wall_s=time.time,
        away=(OperationalError, InterfaceError),
        reconnect=connection.close,
        stop=stop,
    )


def _stop_on_signal() -> Event:
    stop = Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    return stop
