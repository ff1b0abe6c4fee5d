"""``run_emulator``: emulates all servers of the inventory in cluster time."""

import logging
import os
import socket
import time
from argparse import ArgumentParser
from dataclasses import replace
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError, connection

from apps.common.infrastructure.collector import spare_loaded_objects
from apps.common.infrastructure.stop_signal import StopSignal
from apps.common.infrastructure.warm_up import Kernels, warming_up
from apps.execution.backends.emulated.control_plane import DatabaseControlPlane, Hooks
from apps.execution.backends.emulated.emulator import PROBE_FAILURES, Emulator
from apps.execution.backends.emulated.launch_delays import MEASURED
from apps.execution.backends.emulated.port import NoServersError
from apps.execution.backends.emulated.site import WORLD_NAMES
from apps.execution.backends.emulated.warm_up import warm_up
from apps.execution.backends.runner import AWAY_S, DatabaseAwayError, Environment, run
from apps.execution.services.backend_holders import BackendHeldError

logger = logging.getLogger(__name__)

MAX_LAUNCH_DELAY_S: Final = 60.0


class Command(BaseCommand):
    """Run the emulated backend until it is stopped."""

    help = "Emulate the servers: start, run and report jobs in cluster time."
    # the checks query the database, which may be down: the loop waits for it, the checks do not
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--once", action="store_true", help="run one tick and exit")
        parser.add_argument(
            "--patience",
            type=float,
            default=AWAY_S,
            help="wall seconds of a database outage after which the process exits",
        )
        parser.add_argument(
            "--probe-failures",
            type=float,
            default=PROBE_FAILURES,
            help="share of profiling copies, and of ramps, that fail",
        )
        parser.add_argument(
            "--launch-delay",
            type=float,
            default=MEASURED.median_s,
            help="median cluster seconds from the units of a job to its start; --once has none",
        )
        parser.add_argument(
            "--world",
            choices=WORLD_NAMES,
            default=settings.EMULATED_WORLD,
            help=f"what servers and applications are drawn from ({settings.EMULATED_WORLD})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run one tick, or ticks until SIGTERM or SIGINT."""
        worker = f"emulator-{socket.gethostname()[:30]}-{os.getpid()}"
        plane = DatabaseControlPlane(worker=worker, hooks=_hooks(), world=options["world"])
        failures = options["probe_failures"]
        if not 0.0 <= failures <= 1.0:
            raise CommandError(f"--probe-failures must be between 0 and 1, got {failures}")
        delay = replace(MEASURED, median_s=options["launch_delay"])
        if not 0.0 <= delay.median_s <= MAX_LAUNCH_DELAY_S:
            raise CommandError(
                f"--launch-delay must be between 0 and {MAX_LAUNCH_DELAY_S:.0f} s,"
                f" got {delay.median_s}"
            )
        try:
            if options["once"]:
                plane.hold()
                now = time.monotonic()
                Emulator(plane, wall_s=now, probe_failures=failures).tick(now)
                return
            with warming_up(Kernels.EMULATION):
                warm_up(options["world"])
            spare_loaded_objects()

            def create(wall_s: float) -> Emulator:
                plane.hold()
                return Emulator(plane, wall_s=wall_s, probe_failures=failures, launch_delay=delay)

            stop = StopSignal()
            stop.set_on_signals()
            run(create, _environment(stop), away_s=options["patience"])
        except (BackendHeldError, DatabaseAwayError, NoServersError) as error:
            raise CommandError(str(error)) from error
        finally:
            connection.close()


def _hooks() -> Hooks:
    from apps.execution.services import launches, profiles  # noqa: PLC0415

    return Hooks(
        request_launches=lambda backend, limit: launches.request_launches(backend, limit=limit),
        release_jobs=launches.release_jobs,
        record_measurements=profiles.record_measurements,
    )


def _environment(stop: StopSignal) -> Environment:
    return Environment(
        wall_s=time.monotonic,
        away=(OperationalError, InterfaceError),
        reconnect=connection.close,
        stop=stop,
    )
