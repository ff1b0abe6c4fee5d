"""Launches are locked in the order of their ids, whatever is done to several of them."""

from collections.abc import Callable

import pytest

from apps.execution import services
from apps.execution.backends.emulated.port import EndReport, MoveReport
from apps.execution.core.migration import MoveOutcome
from apps.execution.models import Launch, LaunchState, Migration
from apps.execution.moving import cancel_moves
from apps.workloads import services as workloads
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job
from tests.execution.moves_world import MOVED_S, broken, cluster, moving, plane, running
from tests.races import assert_locks_in_order, lay_last

pytestmark = pytest.mark.django_db(transaction=True)


def _start() -> None:
    plane().report_started(dict.fromkeys(Launch.objects.values_list("id", flat=True), 7200.0))


def _end() -> None:
    launches = Launch.objects.values_list("id", flat=True)
    plane().report_ended([EndReport(key, MOVED_S, "finished") for key in launches])


def _move() -> None:
    told = Migration.objects.values_list("id", flat=True)
    plane().report_moves([MoveReport(key, MOVED_S, MoveOutcome.STARTED) for key in told])


def _recall() -> None:
    cancel_moves(list(Migration.objects.values_list("id", flat=True)))


def _lose() -> None:
    ids = list(Launch.objects.values_list("job_id", flat=True))
    lost = lambda: workloads.requeue_lost(ids, reason=Reason.BACKEND_LOST, message="")  # noqa: E731
    services._take_away(ids, lost)


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
