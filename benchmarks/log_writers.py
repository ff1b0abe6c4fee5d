"""Transactions per second of concurrent writers of the change log and the event log.

Starts an embedded PostgreSQL of its own that flushes its WAL, unlike that of the other benchmarks.
Each transaction appends one change and one event, as a server's new state does. In turn, writers
announce a lower bound of their numbers, as the product does, or hold one exclusive lock per log
until they commit, as it did before.

    ./dev bench log_writers --writers 16 --seconds 5
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks._calibration import calibrate, calibration_line
from benchmarks._instance import PROJECT
from controlplane.embedded.postgres import drop_data, plan_cluster
from controlplane.embedded.servers import running_servers

GOAL: Final = 5.0  # times the rate under exclusive locks


def main() -> int:
    """Run the benchmark; return 0 if the goal is met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    before_ms = calibrate()
    rates: dict[bool, list[float]] = {True: [], False: []}
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")
    with _durable_database():
        for _ in range(options.rounds):
            for is_exclusive, measured in rates.items():
                measured.append(_rate(options.writers, options.seconds, is_exclusive))
    for is_exclusive, name in ((True, "exclusive locks"), (False, "announced bounds")):
        shown = ", ".join(f"{rate:,.0f}" for rate in rates[is_exclusive])
        _say(f"{name:<17} {shown} transactions/s of {options.writers} writers")
    ratio = sum(rates[False]) / sum(rates[True])
    is_met = ratio >= GOAL
    _say(f"ratio {ratio:.1f}; goal {GOAL:g}: {'met' if is_met else 'MISSED'}")
    _say(calibration_line(before_ms, calibrate()))
    return 0 if is_met else 1


@contextmanager
def _durable_database() -> Iterator[None]:
    """Start PostgreSQL with its WAL flushed, and point Django at it."""
    with (
        tempfile.TemporaryDirectory(prefix="berth-writers-") as home,
        tempfile.TemporaryDirectory(prefix="berth-sockets-") as sockets,
    ):
        cluster = plan_cluster(Path(home))
        try:
            with running_servers(
                cluster, Path(sockets), lambda name: Path(home) / f"{name}.log", is_durable=True
            ) as servers:
                os.environ["DATABASE_URL"] = servers.database_url
                _prepare()
                yield
        finally:
            drop_data(cluster)


def _prepare() -> None:
    import django  # noqa: PLC0415 - after the database has an address

    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=PROJECT, check=True
    )
    django.setup()


def _rate(writers: int, seconds: float, is_exclusive: bool) -> float:
    """Return the transactions per second of all writers."""
    counts = [0] * writers
    ready, over = threading.Barrier(writers + 1), threading.Event()

    def write(number: int) -> None:
        from django.db import connection  # noqa: PLC0415 - after the database has an address

        _append(number, is_exclusive)  # opens the connection
        ready.wait()
        while not over.is_set():
            _append(number, is_exclusive)
            counts[number] += 1
        connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    ready.wait()
    began_s = time.monotonic()
    over.wait(seconds)
    over.set()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - began_s)


def _append(number: int, is_exclusive: bool) -> None:
    from django.db import connection, transaction  # noqa: PLC0415
    from django.utils import timezone  # noqa: PLC0415

    from apps.common.infrastructure.log_numbers import Log  # noqa: PLC0415
    from apps.inventory.models import ChangeKind  # noqa: PLC0415
    from apps.inventory.services import NewChange, append_changes  # noqa: PLC0415
    from apps.operations.services import NewEvent, record_events  # noqa: PLC0415

    def lock(log: Log) -> None:
        if is_exclusive:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(log)])

    with transaction.atomic():
        lock(Log.CHANGES)
        append_changes([NewChange(ChangeKind.CLOSE, number)], at=timezone.now(), cluster_s=0.0)
        lock(Log.EVENTS)
        record_events([NewEvent("servers", "server.updated", str(number))])


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
