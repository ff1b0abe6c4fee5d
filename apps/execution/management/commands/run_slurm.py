"""``run_slurm``: places the jobs that Slurm holds for Berth, and follows all their states."""

import os
import shutil
import socket
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from apps.execution.backends.foreign_schedulers import environment
from apps.execution.backends.real_time import ClockError, require_real_time
from apps.execution.backends.runner import AWAY_S, DatabaseAwayError, run
from apps.execution.backends.slurm.commands import Slurm, SlurmAwayError
from apps.execution.backends.slurm.holder import Options, SlurmBackend
from apps.execution.backends.slurm.rest import RestSlurm, Slurmrestd
from apps.execution.core.slurm.answers import AnswerError


class Command(BaseCommand):
    """Run the backend of Slurm until it is stopped."""

    help = "Place the jobs that Slurm holds for Berth, and follow them."
    # the checks query the database, which may be down: the loop waits for it, the checks do not
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--config", help="slurm.conf ($SLURM_CONF, or Slurm's own default)")
        parser.add_argument(
            "--project",
            default="default",
            help="project of jobs whose Slurm account is not a Berth project (default)",
        )
        parser.add_argument(
            "--alive-file",
            type=Path,
            help="file updated at every tick; job_submit.lua holds jobs only while it is fresh",
        )
        parser.add_argument(
            "--rest-url",
            help="slurmrestd that lists jobs and nodes: http://HOST:PORT or unix:/PATH",
        )
        parser.add_argument("--rest-user", default="root", help="user of the token (root)")
        parser.add_argument("--rest-token-file", type=Path, help="file with its JSON Web Token")
        parser.add_argument(
            "--patience",
            type=float,
            default=AWAY_S,
            help="wall seconds of a database outage after which the process exits",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Tick until SIGTERM or SIGINT."""
        path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
        slurm = _slurm(path, options)
        worker = f"slurm-{socket.gethostname()[:30]}-{os.getpid()}"
        kept = Options(project=options["project"], alive_file=options["alive_file"])
        if shutil.which("scontrol", path=path) is None:
            raise CommandError("scontrol is not installed here: run this on a host of the cluster")

        def create(_wall_s: float) -> SlurmBackend:
            backend = SlurmBackend(slurm, worker, kept)
            backend.hold()
            return backend

        try:
            require_real_time("jobs of Slurm")
            asked = options["rest_url"] or "its programs"
            self.stdout.write(f"Slurm with the schema {slurm.version.schema}, listed by {asked}")
            run(create, environment("backend of Slurm"), away_s=options["patience"])
        except (AnswerError, ClockError, DatabaseAwayError, SlurmAwayError) as error:
            raise CommandError(str(error)) from error
        finally:
            connection.close()


def _slurm(path: str, options: Mapping[str, Any]) -> Slurm:
    if options["rest_url"] is None:
        return Slurm(options["config"], path)
    if options["rest_token_file"] is None:
        raise CommandError("--rest-url needs --rest-token-file")
    try:
        rest = Slurmrestd(options["rest_url"], options["rest_user"], options["rest_token_file"])
    except ValueError as error:
        raise CommandError(f"--rest-url is {error}") from error
    return RestSlurm(options["config"], path, rest=rest)
