"""All operations lock launches in the order of their ids."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from apps.execution.core.migration import MigrationOutcome, MigrationReport
from apps.execution.core.port import EndReport
from apps.execution.models import Launch, LaunchState, Migration
from apps.execution.services.migrations import cancel_migrations
from apps.execution.services.recovery import requeue_lost_jobs
from apps.inventory.models import Server, ServerState
from apps.workloads.models import Job
from tests.execution.migration_world import MOVED_S, broken, cluster, moving, plane, running
from tests.races import assert_locks_in_order, lay_last

pytestmark = pytest.mark.django_db(transaction=True)


def _start() -> None:
    plane().report_launches(dict.fromkeys(Launch.objects.values_list("id", flat=True), 7200.0), ())


def _end() -> None:
    launches = Launch.objects.values_list("id", flat=True)
    plane().report_launches({}, [EndReport(key, MOVED_S, "finished") for key in launches])


def _move() -> None:
    migration_ids = Migration.objects.values_list("id", flat=True)
    plane().report_migrations(
        [MigrationReport(key, MOVED_S, MigrationOutcome.STARTED) for key in migration_ids]
    )


def _recall() -> None:
    cancel_migrations(list(Migration.objects.values_list("id", flat=True)))


def _lose() -> None:
    Server.objects.update(state=ServerState.DOWN)
    requeue_lost_jobs(silent_before=timezone.now())


@pytest.mark.parametrize("act", [_end, _move, _recall, _lose])
def test_two_launches(act: Callable[[], None]) -> None:
    cluster("a", "b", "c")
    jobs = [running([0]), running([1])]
    for job in jobs:
        moving(job, "a", "b")
    lay_last(Job, jobs[0].id)
    assert_locks_in_order(Launch, Launch.objects.values_list("id", flat=True), act)
    assert broken() == []


def test_two_launches_that_start() -> None:
    cluster("a")
    for unit in (0, 1):
        running([unit])
    Launch.objects.update(state=LaunchState.REQUESTED)
    assert_locks_in_order(Launch, Launch.objects.values_list("id", flat=True), _start)
    assert set(Launch.objects.values_list("state", flat=True)) == {"running"}
