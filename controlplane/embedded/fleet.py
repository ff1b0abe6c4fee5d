"""The processes of a running instance and their commands."""

import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.embedded.instance import PROJECT, InstanceDirectory
from controlplane.embedded.processes import Child, bound_to_parent, start

TERMINATE, QUIT = signal.SIGTERM, signal.SIGQUIT


@dataclass(frozen=True, slots=True)
class Service:
    """A process of the instance: `python -m` with these arguments.

    ``niceness`` : above 0 for work that waits while jobs are placed
    """

    name: str
    arguments: tuple[str, ...]
    stop_signals: tuple[signal.Signals, ...] = (TERMINATE, QUIT)
    niceness: int = 0


def web(port: int) -> Service:
    """Return the web process: dashboard and REST API."""
    return Service(
        "web",
        (
            *("gunicorn", "controlplane.wsgi:application", "--bind", f"127.0.0.1:{port}"),
            *(
                "--worker-class",
                "controlplane.web_worker.Worker",
                "--workers",
                "1",
                "--threads",
                "8",
            ),
            *("--keep-alive", "30", "--timeout", "60", "--graceful-timeout", "1"),
            *("--no-control-socket", "--log-level", "warning"),
        ),
    )


def stream(port: int) -> Service:
    """Return the event stream process, which keeps streams off the threads of the web process."""
    return Service(
        "stream",
        (
            *("uvicorn", "controlplane.asgi:stream", "--host", "127.0.0.1", "--port", str(port)),
            *("--http", "controlplane.stream_protocol:Protocol"),
            *("--timeout-graceful-shutdown", "1", "--lifespan", "off"),
            *("--no-access-log", "--log-level", "warning"),
        ),
        stop_signals=(TERMINATE, TERMINATE),
    )


def worker(queue: str, concurrency: int, *, niceness: int = 0) -> Service:
    """Return a Celery worker for one queue.

    It skips Django's checks, which import all pages and routes: the command that migrates the
    database has made them.
    """
    return Service(
        f"worker-{queue}",
        (
            *("celery", "--skip-checks", "-A", "controlplane", "worker", "--queues", queue),
            *("--concurrency", str(concurrency), "--hostname", f"{queue}@%h"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            *("--loglevel", "WARNING"),
        ),
        niceness=niceness,
    )


def beat(schedule: Path) -> Service:
    """Return the scheduler of periodic tasks; its schedule file is temporary."""
    return Service(
        "beat",
        (
            *("celery", "--skip-checks", "-A", "controlplane", "beat"),
            *("--schedule", str(schedule), "--pidfile="),
        ),
    )


def command(name: str, *arguments: str) -> Service:
    """Return a long-running management command."""
    return Service(
        name, (str(PROJECT / "manage.py"), *arguments), stop_signals=(TERMINATE, signal.SIGINT)
    )


def launch(
    service: Service, *, instance: InstanceDirectory, environment: Mapping[str, str]
) -> Child:
    """Start a service."""
    is_script = service.arguments[0].endswith(".py")
    python = [sys.executable, *(() if is_script else ("-m",)), *service.arguments]
    child = start(
        service.name,
        bound_to_parent(python, death_signal=service.stop_signals[0]),
        log=instance.new_log(service.name),
        environment=environment,
        stop_signals=service.stop_signals,
    )
    if service.niceness:
        child.set_niceness(service.niceness)
    return child
