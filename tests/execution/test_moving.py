"""Migrations: asked for, refused and recalled."""

from dataclasses import replace
from typing import Any

import pytest

from apps.execution.backends.emulated.port import MoveReport
from apps.execution.core.migration import MoveOutcome
from apps.execution.models import Migration
from apps.execution.moving import MoveRefusal, Requested, cancel_moves, request_moves
from apps.execution.services import request_launches
from apps.inventory.models import Change, Server, ServerState
from apps.operations.models import Event
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import commit
from apps.workloads import services as workloads
from apps.workloads.models import Job
from tests.execution.moves_world import (
    MOVED_S,
    ask,
    broken,
    cluster,
    end,
    holds,
    move,
    moving,
    plane,
    report,
    running,
    server,
    stand,
)
from tests.races import at_once
from tests.scheduling.world import ME, claimed, proposal, used
from tests.scheduling.world import at_once as together

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _cluster(db: None) -> None:
    cluster()


# ---- requests ----


def test_a_move_reserves_as_much_elsewhere_as_the_job_holds() -> None:
    job = running([0, 1])
    (answer,) = request_moves([move(job, "a", "b")])
    assert isinstance(answer, Requested)
    found = Migration.objects.get(id=answer.migration_id)
    assert (found.state, found.units, found.requested_s) == ("requested", 2, 7200.0)
    assert (found.from_server_id, found.to_server_id) == (server("a"), server("b"))
    source, target = Allocation.objects.order_by("id")
    assert (found.source_allocation_id, found.target_allocation_id) == (source.id, target.id)
    assert (target.moved_from, target.moved_s, target.decision) == (
        source.id,
        None,
        source.decision,
    )
    assert used("a") == used("b") != used("c")
    assert holds(job.id) == [("a", 2), ("b", 2)]
    assert broken() == []


def test_the_agents_and_everybody_who_watches_are_told() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    told = Change.objects.order_by("-seq")[0]
    target = Allocation.objects.get(id=found.target_allocation_id)
    assert (told.kind, told.allocation_id, told.unit_ids) == ("claim", target.id, target.unit_ids)
    assert told.caused == target.caused
    event = Event.objects.get(kind="job.moving")
    assert (event.subject, event.request_id) == (str(job.id), job.correlation_id)
    assert event.data["to_server"] == server("b")


def test_the_time_predicted_is_the_memory_over_half_the_slower_network() -> None:
    job = running([0, 1])
    Server.objects.filter(name="b").update(network_bps=5 * 10**8)
    (answer,) = request_moves([move(job, "a", "b")])
    # two of four units of 16 GB
    assert isinstance(answer, Requested)
    assert answer.predicted_s == pytest.approx(8 * 8e9 / 2.5e8)


def test_what_a_job_asked_for_it_gets_elsewhere_too() -> None:
    job = running([0, 1])
    Job.objects.filter(id=job.id).update(unit_memory_bytes=10**9)
    found = moving(job, "a", "b")
    target = Allocation.objects.get(id=found.target_allocation_id)
    assert (target.memory_bytes, target.network_bps) == (2 * 10**9, 2 * 10**9 // 4)


def refused_of(job: Job) -> dict[str, Any]:
    good = move(job, "a", "b")
    other = running([4])
    return {
        "allocation_not_held": replace(good, allocation_id=10**9),
        "same_server": replace(good, to_server_id=server("a")),
        "server_closed": replace(good, to_server_id=10**9),
        "job_not_running": replace(good, job_id=claimed().id),
        "of another": replace(good, allocation_id=stand(other, "b")),
    }


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("allocation_not_held", "allocation_not_held"),
        ("of another", "allocation_not_held"),
        ("same_server", "same_server"),
        ("server_closed", "server_closed"),
        ("job_not_running", "job_not_running"),
    ],
)
def test_what_cannot_be_moved_is_refused_with_its_reason(case: str, code: str) -> None:
    job = running([0, 1])
    wish = refused_of(job)[case]
    before = Change.objects.count()
    assert ask(wish) == [MoveRefusal(code)]
    assert (Change.objects.count(), Migration.objects.count()) == (before, 0)


def test_a_server_without_so_many_free_units_is_refused() -> None:
    job = running([0, 1])
    running([4, 5, 6])
    assert ask(move(job, "a", "b")) == [MoveRefusal.UNITS_SHORT]


def test_a_server_without_the_memory_is_refused() -> None:
    job = running([0, 1])
    Job.objects.filter(id=job.id).update(unit_memory_bytes=9 * 10**9)
    assert ask(move(job, "a", "b")) == [MoveRefusal.CAPACITY_SHORT]
    assert used("b") == [0, 0, 0, 0]


def test_moves_asked_for_together_share_what_the_server_has() -> None:
    jobs = [running([0, 1]), running([2])]
    Job.objects.update(unit_memory_bytes=6 * 10**9)
    found = ask(*(move(job, "a", "b") for job in jobs))
    assert found == [Migration.objects.get().id, MoveRefusal.CAPACITY_SHORT]
    assert used("b")[:2] == [2, 12 * 10**9]


@pytest.mark.parametrize("state", [ServerState.DRAINING, ServerState.DOWN, ServerState.CORDONED])
def test_a_server_that_takes_no_new_work_is_refused(state: str) -> None:
    job = running([0, 1])
    Server.objects.filter(name="b").update(state=state)
    assert ask(move(job, "a", "b")) == [MoveRefusal.SERVER_CLOSED]


def test_a_job_to_be_cancelled_is_not_moved() -> None:
    job = running([0, 1])
    workloads.cancel_jobs([job.id])
    assert ask(move(job, "a", "b")) == [MoveRefusal.JOB_NOT_RUNNING]


def test_one_part_of_a_job_moves_at_once() -> None:
    job = running([0, 4])
    first, second = move(job, "a", "c"), move(job, "b", "c")
    migration, refusal = ask(first, second)
    assert (refusal, Migration.objects.get().id) == (MoveRefusal.JOB_IS_MOVING, migration)
    assert ask(second) == [MoveRefusal.JOB_IS_MOVING]


def test_what_is_only_reserved_cannot_be_moved_on() -> None:
    job = running([0, 1])
    moving(job, "a", "b")
    Migration.objects.update(state="failed")  # whatever left the reservation there
    assert ask(move(job, "b", "c")) == [MoveRefusal.ALLOCATION_NOT_HELD]


def test_of_many_moves_earlier_ones_win() -> None:
    jobs = [running([0, 1]), running([2]), running([4, 5])]
    found = ask(move(jobs[2], "b", "c"), move(jobs[0], "a", "c"), move(jobs[1], "a", "c"))
    assert found[2] == MoveRefusal.UNITS_SHORT
    assert Migration.objects.count() == 2
    assert used("c")[0] == 4
    assert broken() == []


def test_a_move_costs_the_same_statements_however_many(django_assert_max_num_queries: Any) -> None:
    jobs = [running([i]) for i in range(4)]
    wishes = [move(job, "a", "b") for job in jobs]
    with django_assert_max_num_queries(24):
        found = request_moves(wishes)
    assert all(isinstance(answer, Requested) for answer in found)


def test_no_moves_are_no_change() -> None:
    assert request_moves([]) == []


# ---- recalls ----


def test_a_move_nobody_has_begun_is_recalled() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    assert cancel_moves([found.id]) == {found.id}
    found.refresh_from_db()
    assert (found.state, found.message) == ("cancelled", "recalled before it began")
    assert holds(job.id) == [("a", 2)]
    assert plane().claim_moves(10) == []
    assert broken() == []


def test_one_under_way_cannot_be_recalled_and_goes_on() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    report(found, "started")
    assert cancel_moves([found.id]) == set()
    report(found, "done")
    assert (found.state, holds(job.id)) == ("done", [("b", 2)])


def test_one_that_a_backend_may_have_begun_without_saying_so_cannot_be_recalled() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    plane().claim_moves(10)
    assert cancel_moves([found.id]) == set()
    found.refresh_from_db()
    assert (found.state, found.cancel_requested) == ("requested", True)
    said = [MoveReport(found.id, MOVED_S, MoveOutcome(x)) for x in ("started", "done")]
    plane().report_moves(said)
    assert holds(job.id) == [("b", 2)]


def test_one_recalled_under_way_is_not_begun_anew_by_the_next_process() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    report(found, "started")
    cancel_moves([found.id])
    Migration.objects.update(claimed_until="2020-01-01T00:00:00Z")
    assert plane("emulator-2").claim_moves(10) == []
    found.refresh_from_db()
    assert (found.state, holds(job.id)) == ("cancelled", [("a", 2)])


# ---- at once ----


@pytest.mark.django_db(transaction=True)
def test_of_two_moves_to_the_same_units_at_once_one_wins() -> None:
    jobs = [running([0, 1, 2]), running([4, 5])]
    wishes = iter([move(jobs[0], "a", "c"), move(jobs[1], "b", "c")])
    found = at_once(2, lambda: ask(next(wishes))[0])
    assert sorted(isinstance(one, MoveRefusal) for one in found) == [False, True]
    assert MoveRefusal.UNITS_SHORT in found
    assert broken() == []


@pytest.mark.django_db(transaction=True)
def test_of_two_moves_of_one_job_at_once_one_wins() -> None:
    job = running([0, 1])
    wishes = iter([move(job, "a", "b"), move(job, "a", "c")])
    found = at_once(2, lambda: ask(next(wishes))[0])
    assert MoveRefusal.JOB_IS_MOVING in found
    assert Migration.objects.count() == 1
    assert broken() == []


@pytest.mark.django_db(transaction=True)
def test_a_move_and_a_commit_for_the_same_units_at_once_one_wins() -> None:
    job, other = running([0, 1, 2]), claimed()
    offer = proposal(other, read_copy().topology, [4, 5])
    wish = move(job, "a", "b")
    assert together(lambda: ask(wish), lambda: commit([offer], agent=ME)) == []
    holders = {row.job_id for row in Allocation.objects.filter(server_id=server("b"))}
    assert len(holders) == 1
    assert used("b")[0] in {2, 3}
    request_launches("emulated", limit=10)
    assert broken() == []


@pytest.mark.django_db(transaction=True)
def test_a_job_that_ends_while_it_is_asked_to_move_leaves_nothing_behind() -> None:
    job = running([0, 1])
    wish = move(job, "a", "b")
    assert together(lambda: ask(wish), lambda: end(job)) == []
    assert holds(job.id) == []
    assert not Migration.objects.filter(state__in=["requested", "running"]).exists()
    assert broken() == []


@pytest.mark.django_db(transaction=True)
def test_an_end_and_an_arrival_at_once_leave_nothing_behind() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    report(found, "started")
    assert together(lambda: report(found, "done"), lambda: end(job)) == []
    assert holds(job.id) == []
    assert broken() == []
