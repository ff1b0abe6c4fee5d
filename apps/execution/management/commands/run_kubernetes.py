"""``run_kubernetes``: places the pods that name Berth as their scheduler, and follows them."""

import os
import socket
from argparse import ArgumentParser
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import numpy as np
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from apps.common.core.errors import ControlPlaneError
from apps.execution.backends.foreign_schedulers import environment
from apps.execution.backends.kubernetes.cluster import Cluster, connect
from apps.execution.backends.kubernetes.extender import (
    Access,
    Extender,
    ExtenderServer,
    ExtenderSetupError,
)
from apps.execution.backends.kubernetes.extender_views import Views
from apps.execution.backends.kubernetes.holder import KubernetesBackend, Options
from apps.execution.backends.real_time import require_real_time
from apps.execution.backends.runner import AWAY_S, run

MIN_TOKEN: Final = 16  # characters


class Command(BaseCommand):
    """Run the backend of Kubernetes until it is stopped."""

    help = "Place the pods that name Berth as their scheduler, and follow them."
    # the checks query the database, which may be down: the loop waits for it, the checks do not
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--kubeconfig",
            default=os.environ.get("KUBECONFIG"),
            help="file ($KUBECONFIG); without one, the service account of this pod",
        )
        parser.add_argument("--context", help="of the kubeconfig (its current one)")
        parser.add_argument(
            "--scheduler", default="berth", help="schedulerName of the pods to place (berth)"
        )
        parser.add_argument(
            "--project",
            default="default",
            help="project of namespaces without a Berth project of the same name (default)",
        )
        parser.add_argument(
            "--extender",
            type=_address,
            metavar="HOST:PORT",
            help="answer a kube-scheduler here: filter, prioritize and bind",
        )
        parser.add_argument(
            "--extender-token-file", type=Path, help="its first line is what requests must carry"
        )
        parser.add_argument("--extender-cert", type=Path, help="certificate: answer over HTTPS")
        parser.add_argument("--extender-key", type=Path, help="its key")
        parser.add_argument(
            "--extender-client-ca", type=Path, help="CA that the scheduler's certificate needs"
        )
        parser.add_argument(
            "--patience",
            type=float,
            default=AWAY_S,
            help="wall seconds of a database outage after which the process exits",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Tick until SIGTERM or SIGINT."""
        worker = f"kubernetes-{socket.gethostname()[:25]}-{os.getpid()}"
        kept = Options(scheduler=options["scheduler"], project=options["project"])
        with closing(connection), ExitStack() as extender, ExitStack() as threads:
            try:
                require_real_time("pods")
                cluster = connect(options["kubeconfig"], options["context"], instance=worker)
                self.stdout.write(f"Kubernetes {cluster.version()}")
                if options["extender"] is not None:
                    _start_extender(cluster, options, extender)

                def create(_wall_s: float) -> KubernetesBackend:
                    threads.close()  # of a predecessor that has lost the backend
                    backend = KubernetesBackend(cluster, worker, np.random.default_rng(), kept)
                    backend.hold()
                    threads.callback(backend.stop)
                    backend.start()
                    return backend

                run(create, environment("backend of Kubernetes"), away_s=options["patience"])
            except ControlPlaneError as error:
                raise CommandError(str(error)) from error


def _address(text: str) -> tuple[str, int]:
    """Return host and port.

    Raises
    ------
    ValueError : another form.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"must be HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def _start_extender(cluster: Cluster, options: dict[str, Any], stack: ExitStack) -> None:
    """Answer a kube-scheduler until the stack is closed; needs no hold on the backend.

    Raises
    ------
    ExtenderSetupError : the options do not protect it, or a file cannot be read.
    """
    views = Views()
    access = Access(
        token=_token(options["extender_token_file"]),
        certificate=options["extender_cert"],
        key=options["extender_key"],
        client_ca=options["extender_client_ca"],
    )
    server = ExtenderServer(options["extender"], Extender(cluster, views), access)
    stack.callback(views.stop)
    stack.callback(server.stop)
    views.start()
    server.start()


def _token(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        token = path.read_text().partition("\n")[0].strip()
    except OSError as error:
        raise ExtenderSetupError(f"the token file: {error}") from error
    if len(token) < MIN_TOKEN:
        raise ExtenderSetupError(f"the token has fewer than {MIN_TOKEN} characters")
    return token
