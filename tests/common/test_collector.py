"""Objects that a process has loaded are left out of collections."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from apps.common.infrastructure.collector import YOUNG, spare_loaded_objects
from controlplane.embedded.instance import PROJECT

STARTED = """
import gc
import controlplane.celery
from celery import signals
signals.{start}.send(sender=None)
print(gc.get_threshold()[0], gc.get_freeze_count() > 10_000)
"""


@pytest.fixture(autouse=True)
def _own_collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


class Part:
    """An object that can refer to itself."""

    itself: "Part | None" = None


def is_examined(part: Part) -> bool:
    """Return whether collections examine an object."""
    return any(each is part for each in gc.get_objects())


def test_what_exists_is_left_out_and_what_follows_is_not() -> None:
    before = Part()
    spare_loaded_objects()
    after = Part()
    assert (is_examined(before), is_examined(after)) == (False, True)


def test_garbage_is_freed_first() -> None:
    part = Part()
    part.itself = part
    freed = weakref.ref(part)
    gc.disable()  # it is garbage until the call
    try:
        del part
        assert freed() is not None
        spare_loaded_objects()
    finally:
        gc.enable()
    assert freed() is None


def test_collections_become_rarer() -> None:
    spare_loaded_objects()
    assert gc.get_threshold()[0] == YOUNG


@pytest.mark.parametrize("start", ["beat_init", "worker_init"])
def test_processes_of_tasks_do_so_at_their_start(start: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", STARTED.format(start=start)],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
        env={"REDIS_URL": "unix:///tmp/broker.sock?db=3", "PYTHONPATH": str(PROJECT)},
    )
    assert done.stdout == f"{YOUNG} True\n"
