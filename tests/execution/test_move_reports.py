"""Migrations: claimed, made or not, and ended with their jobs."""

from typing import Any

import pytest

from apps.execution.backends.emulated.port import MoveReport
from apps.execution.core.migration import MoveOutcome
from apps.execution.models import Launch, Migration
from apps.execution.move_reports import end_stranded_moves
from apps.execution.moving import Move
from apps.execution.services import sweep
from apps.inventory.models import Change, ResourceUnit, Server, ServerState
from apps.operations.models import Event
from apps.scheduling.models import Allocation
from tests.execution.moves_world import (
    MOVED_S,
    ask,
    broken,
    cluster,
    end,
    holds,
    launch_of,
    moving,
    plane,
    report,
    running,
    server,
)
from tests.scheduling.world import used

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _cluster(db: None) -> None:
    cluster()


# ---- what backends say ----


def test_a_move_that_is_made_gives_back_what_it_left() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    report(found, "started", at_s=7210.0)
    assert (found.state, found.started_s, holds(job.id)) == (
        "running",
        7210.0,
        [("a", 2), ("b", 2)],
    )
    report(found, "done")
    assert (found.state, found.ended_s, found.started_s) == ("done", MOVED_S, 7210.0)
    assert holds(job.id) == [("b", 2)]
    target = Allocation.objects.get(id=found.target_allocation_id)
    assert (target.moved_s, used("a")) == (MOVED_S, [0, 0, 0, 0])
    assert Event.objects.filter(kind="job.moved").count() == 1
    assert broken() == []


def test_the_launch_names_the_new_place() -> None:
    job = running([0, 1, 4])
    report(moving(job, "a", "c"), "started", "done")
    (order,) = plane().live_launches()
    assert order.parts == ((server("b"), 1), (server("c"), 2))


def test_parts_that_meet_are_one_part_and_can_go_on_alone() -> None:
    job = running([0, 1, 4])
    report(moving(job, "a", "b"), "started", "done")
    assert plane().live_launches()[0].parts == ((server("b"), 3),)
    by_units = Allocation.objects.get(job=job, cores=1, released_seq=None)
    (migration,) = ask(Move(job.id, by_units.id, server("c"), "plan"))
    report(Migration.objects.get(id=migration), "started", "done")
    assert plane().live_launches()[0].parts == ((server("b"), 2), (server("c"), 1))
    assert broken() == []


def test_a_job_may_move_again_and_back() -> None:
    job = running([0, 1])
    for on, to in (("a", "b"), ("b", "c"), ("c", "a")):
        report(moving(job, on, to), "started", "done")
    assert holds(job.id) == [("a", 2)]
    assert broken() == []


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_a_move_that_is_not_made_gives_back_where_it_would_have_gone(outcome: str) -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    report(found, "started", outcome)
    assert (found.state, found.message) == (outcome, f"it {outcome}")
    assert (holds(job.id), used("b")) == ([("a", 2)], [0, 0, 0, 0])
    assert plane().live_launches()[0].parts == ((server("a"), 2),)
    assert Event.objects.filter(kind=f"job.move_{outcome}").count() == 1
    assert broken() == []


def test_reports_may_come_twice_and_late() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    report(found, "started", "done")
    seen = (Change.objects.count(), Event.objects.count(), launch_of(job).order)
    report(found, "started", "done", at_s=9000.0)
    report(found, "failed")
    assert (found.state, found.ended_s) == ("done", MOVED_S)
    assert (Change.objects.count(), Event.objects.count(), launch_of(job).order) == seen


def test_many_reports_are_a_few_statements(django_assert_max_num_queries: Any) -> None:
    jobs = [running([i]) for i in range(4)]
    found = [moving(job, "a", "b") for job in jobs]
    said = [MoveReport(one.id, MOVED_S, MoveOutcome.DONE) for one in found]
    with django_assert_max_num_queries(32):
        plane().report_moves(said)
    assert used("a") == [0, 0, 0, 0]


# ---- claims ----


def test_a_migration_is_claimed_with_all_the_backend_needs() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    (order,) = plane().claim_moves(10)
    assert (order.migration, order.launch, order.units) == (found.id, launch_of(job).id, 2)
    assert (order.from_server, order.to_server) == (server("a"), server("b"))


def test_another_process_gets_it_only_once_the_claim_ran_out() -> None:
    found = moving(running([0]), "a", "b")
    report(found, "started")
    assert plane("emulator-2").claim_moves(10) == []
    Migration.objects.update(claimed_until="2020-01-01T00:00:00Z")
    assert [x.migration for x in plane("emulator-2").claim_moves(10)] == [found.id]


def test_what_a_process_is_doing_it_keeps_and_does_not_get_again() -> None:
    found = moving(running([0]), "a", "b")
    report(found, "started")
    Migration.objects.update(claimed_until="2020-01-01T00:00:00Z")
    assert plane().claim_moves(10, doing=[found.id]) == []
    assert plane("emulator-2").claim_moves(10) == []


# ---- jobs that end meanwhile ----


@pytest.mark.parametrize("outcome", ["finished", "cancelled", "failed"])
@pytest.mark.parametrize("said", [(), ("started",)])
def test_a_job_that_ends_on_the_way_gives_back_both_sides(
    outcome: str, said: tuple[str, ...]
) -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    report(found, *said)
    end(job, outcome)
    found.refresh_from_db()
    assert (found.state, found.claimed_until) == ("cancelled", None)
    assert not ResourceUnit.objects.exclude(allocation_id=None).exists()
    assert used("a") == used("b") == [0, 0, 0, 0]
    report(found, "done")
    assert found.state == "cancelled"
    assert broken() == []


def test_a_job_whose_server_goes_silent_on_the_way_is_queued_anew() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    report(found, "started")
    Server.objects.filter(name="a").update(state=ServerState.DOWN)
    sweep()
    found.refresh_from_db()
    job.refresh_from_db()
    assert (job.state, found.state, holds(job.id)) == ("queued", "failed", [])
    assert broken() == []


def test_a_silent_server_it_only_goes_to_does_not_cost_a_job_its_place() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    report(found, "started")
    Server.objects.filter(name="b").update(state=ServerState.DOWN)
    sweep()
    job.refresh_from_db()
    found.refresh_from_db()
    assert (job.state, found.state) == ("running", "running")


def test_a_move_nobody_has_begun_ends_when_its_server_closes() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    assert end_stranded_moves() == 0
    Server.objects.filter(name="b").update(state=ServerState.DRAINING)
    assert end_stranded_moves() == 1
    found.refresh_from_db()
    assert (found.state, holds(job.id)) == ("cancelled", [("a", 2)])


def test_a_move_whose_launch_runs_no_more_is_swept() -> None:
    job = running([0, 1])
    found = moving(job, "a", "b")
    report(found, "started")
    Launch.objects.update(state="ended")
    sweep()
    found.refresh_from_db()
    assert found.state == "cancelled"
