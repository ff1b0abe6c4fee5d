"""The processes of a running instance, and how each of them is started."""

import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.embedded.instance import PROJECT, Instance
from controlplane.embedded.processes import Child, start, tethered

ASK, INSIST = signal.SIGTERM, signal.SIGQUIT


@dataclass(frozen=True, slots=True)
class Member:
    """One process of the fleet: `python -m` these arguments."""

    name: str
    arguments: tuple[str, ...]
    stop_signals: tuple[signal.Signals, ...] = (ASK, INSIST)


def web(port: int) -> Member:
    """Pages and REST."""
    return Member(
        "web",
        (
            *("gunicorn", "controlplane.wsgi:application", "--bind", f"127.0.0.1:{port}"),
            *("--worker-class", "gthread", "--workers", "1", "--threads", "8"),
            *("--keep-alive", "30", "--timeout", "60", "--graceful-timeout", "1"),
            *("--no-control-socket", "--log-level", "warning"),
        ),
    )


def stream(port: int) -> Member:
    """Event streams, which would otherwise each hold a thread of the web process."""
    return Member(
        "stream",
        (
            *("uvicorn", "controlplane.asgi:stream", "--host", "127.0.0.1", "--port", str(port)),
            *("--timeout-graceful-shutdown", "1", "--lifespan", "off"),
            *("--no-access-log", "--log-level", "warning"),
        ),
        stop_signals=(ASK, ASK),
    )


def worker(queue: str, concurrency: int) -> Member:
    """Return a Celery worker for one queue."""
    return Member(
        f"worker-{queue}",
        (
            *("celery", "-A", "controlplane", "worker", "--queues", queue),
            *("--concurrency", str(concurrency), "--hostname", f"{queue}@%h"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            *("--loglevel", "WARNING"),
        ),
    )


def beat(schedule: Path) -> Member:
    """Return the clock of the periodic tasks; its schedule file is worth nothing after a stop."""
    return Member(
        "beat",
        ("celery", "-A", "controlplane", "beat", "--schedule", str(schedule), "--pidfile="),
    )


def command(name: str, *arguments: str) -> Member:
    """Return a management command that keeps running."""
    return Member(
        name, (str(PROJECT / "manage.py"), *arguments), stop_signals=(ASK, signal.SIGINT)
    )


def launch(member: Member, *, instance: Instance, environment: Mapping[str, str]) -> Child:
    """Start one member."""
    is_script = member.arguments[0].endswith(".py")
    python = [sys.executable, *(() if is_script else ("-m",)), *member.arguments]
    return start(
        member.name,
        tethered(python, death_signal=member.stop_signals[0]),
        log=instance.fresh_log(member.name),
        environment=environment,
        stop_signals=member.stop_signals,
    )
