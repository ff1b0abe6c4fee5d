"""Every Django process sends its tasks through Berth's broker; workers keep their connections."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from celery.fixups import django as fixups
from celery.signals import task_prerun
from django.db import connection

from controlplane.celery import app
from controlplane.embedded.instance import PROJECT
from tests.races import meanwhile

BROKER = "unix:///tmp/broker.sock?db=3"
CURRENT = """
from celery import current_app
print(current_app.main, current_app.conf.broker_url)
"""


@pytest.mark.parametrize(
    "start", ["import controlplane.wsgi", "import controlplane.asgi", "import controlplane.celery"]
)
def test_the_current_application_is_berths(start: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", start + CURRENT],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
        env={"REDIS_URL": BROKER, "PYTHONPATH": str(PROJECT)},
    )
    assert done.stdout == "berth redis+socket:///tmp/broker.sock?virtual_host=3\n"


class Started:
    """A task that a worker runs."""

    request = SimpleNamespace(is_eager=False)


TASK: Any = Started()


def session() -> int:
    """Return the id of the session of this connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        ((pid,),) = cursor.fetchall()
    return int(pid)


def end_session(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


@pytest.mark.django_db(transaction=True)
def test_a_worker_keeps_its_connection_between_tasks() -> None:
    worker = fixups.DjangoWorkerFixup(app)  # type: ignore[attr-defined]  # not in its stubs
    connection.close()  # earlier tests have opened it: it may be as old as `CONN_MAX_AGE`
    first = session()
    for _ in range(3):
        worker.on_task_prerun(sender=TASK)
        task_prerun.send(sender=TASK)
        assert session() == first
        worker.on_task_postrun(sender=TASK)


@pytest.mark.django_db(transaction=True)
def test_a_task_replaces_a_connection_that_was_lost() -> None:
    first = session()
    meanwhile(lambda: end_session(first))
    task_prerun.send(sender=TASK)
    assert session() != first
