"""Preemptions that Berth proposes: stored first, bounded, approved by operators or applied."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from apps.execution.models import PreemptionProposal
from apps.execution.selectors.preemption import jobs_to_preempt_for
from apps.execution.services import proposed_preemptions
from apps.execution.services.preemption import preempt, preview_preemption
from apps.execution.services.preemption_approval import dismiss_proposal
from apps.execution.services.proposed_preemptions import (
    JOBS_AT_ONCE,
    URGENT_AT_ONCE,
    propose_preemptions,
    withdraw_stale,
)
from apps.operations.models import Event
from apps.scheduling.models import Reservation
from apps.scheduling.services.agent import make_agent
from apps.workloads.models import Job
from tests import factories
from tests.execution.migration_world import end, holds, launch_of
from tests.execution.preemption_world import NOW_S, low, urgent, world
from tests.execution.proposal_world import (
    automatic,
    full,
    limits,
    previewed,
    proposals,
    stopping,
    turn,
)
from tests.races import meanwhile
from tests.scheduling.plans import analyze, rows_read
from tests.scheduling.shapes import flood

pytestmark = pytest.mark.django_db
__all__ = ["automatic", "limits", "previewed", "world"]  # fixtures


def test_nothing_is_proposed_by_default() -> None:
    full()
    urgent(2)
    assert turn() == 0
    assert proposals() == []


@pytest.mark.usefixtures("previewed")
def test_a_proposal_waits_for_an_operator_and_stops_nothing() -> None:
    victim = full()
    job = urgent(2)
    assert turn() == 1
    proposal = PreemptionProposal.objects.get()
    assert (proposal.job_id, proposal.state, proposal.is_automatic) == (job.id, "proposed", False)
    assert (proposal.victims, proposal.lost, proposal.broken) == (1, 240, 0)
    assert [each["id"] for each in proposal.preview] == [str(victim.id)]
    assert (stopping(), Reservation.objects.count()) == ([], 0)
    assert turn() == 0
    assert len(proposals()) == 1


@pytest.mark.django_db(transaction=True)
def test_two_processes_that_propose_at_once_store_one_proposal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full()
    found = preview_preemption(urgent(2).id)
    store, described = proposed_preemptions._store, proposed_preemptions._described
    others = [lambda: store(found, is_automatic=False)[1]]

    def late(victim: Any) -> dict[str, Any]:
        if others:  # between the search for an open proposal and the insert
            assert meanwhile(others.pop())
        return described(victim)

    monkeypatch.setattr(proposed_preemptions, "_described", late)
    assert store(found, is_automatic=False) == (None, False)
    assert proposals() == [("proposed", 1, "")]


def test_the_violation_of_another_constraint_is_not_a_proposal_of_another_process() -> None:
    full()
    found = preview_preemption(urgent(2).id)
    invalid = replace(found, cost=found.cost._replace(broken=-1))
    with pytest.raises(IntegrityError, match="broken_check"):
        proposed_preemptions._store(invalid, is_automatic=False)
    assert proposals() == []


@pytest.mark.usefixtures("previewed")
def test_an_operator_approves_a_proposal() -> None:
    full()
    job = urgent(2)
    turn()
    preempt(job.id, preview_preemption(job.id).basis)
    assert proposals() == [("applied", 1, "")]
    assert stopping() == ["low-0"]
    assert turn() == 0


@pytest.mark.usefixtures("automatic")
def test_an_automatic_preemption_is_recorded_before_it_acts() -> None:
    victim = full()
    job = urgent(4)
    assert turn() == 1
    assert proposals() == [("applied", 1, "")]
    assert stopping() == ["low-0"]
    events = Event.objects.filter(kind__startswith="job.preempt").order_by("seq")
    assert [(each.kind, each.subject) for each in events] == [
        ("job.preemption_proposed", str(job.id)),
        ("job.preempted", str(victim.id)),
    ]
    assert events[0].data == {
        "name": "urgent", "state": "queued", "victims": 1, "lost_unit_seconds": 240,
        "broken_promises": 0, "is_automatic": True,
    }  # fmt: skip


@pytest.mark.usefixtures("automatic")
def test_a_failure_to_apply_leaves_the_record_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim = full()
    urgent(4)
    store = proposed_preemptions._store

    def ended(found: Any, *, is_automatic: bool) -> Any:
        stored = store(found, is_automatic=is_automatic)
        end(victim)
        return stored

    monkeypatch.setattr(proposed_preemptions, "_store", ended)
    turn()
    ((state, _, message),) = proposals()
    assert state == "withdrawn"
    assert "Check the new preview" in message
    assert (stopping(), Reservation.objects.count()) == ([], 0)


def dismiss() -> None:
    dismiss_proposal(PreemptionProposal.objects.get(state="proposed").pk)


def switch_off() -> None:
    withdraw_stale(all_of_them=True)


@pytest.mark.usefixtures("automatic")
@pytest.mark.parametrize(
    ("decide", "stored"),
    [
        (dismiss, ("dismissed", 1, "")),
        (switch_off, ("withdrawn", 1, "Preemption was switched off.")),
    ],
)
def test_a_proposal_that_others_close_before_it_acts_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, decide: Callable[[], None], stored: tuple[str, int, str]
) -> None:
    full()
    urgent(4)
    apply = proposed_preemptions._apply

    def late(*values: Any) -> None:
        decide()
        apply(*values)

    monkeypatch.setattr(proposed_preemptions, "_apply", late)
    turn()
    assert proposals() == [stored]
    assert (stopping(), Reservation.objects.count()) == ([], 0)


@pytest.mark.usefixtures("previewed")
@pytest.mark.parametrize("mode", ["previewed", "automatic"])
def test_a_dismissal_during_the_preview_is_respected(
    monkeypatch: pytest.MonkeyPatch, settings: LazySettings, mode: str
) -> None:
    full()
    urgent(4)
    turn()

    def slow(*values: Any) -> Any:
        found = preview_preemption(*values)
        dismiss()
        return found

    monkeypatch.setattr(proposed_preemptions, "preview_preemption", slow)
    settings.PREEMPTION = mode
    assert turn() == 0
    assert proposals() == [("dismissed", 1, "")]
    assert stopping() == []


@pytest.mark.usefixtures("automatic")
def test_the_victim_is_queued_again_with_its_reason_and_completes_later() -> None:
    victim = full()
    job = urgent(4)
    turn()
    end(victim, "cancelled")
    victim.refresh_from_db()
    assert (victim.state, victim.reason_code) == ("queued", "Preempted")
    make_agent("agent-1").work(for_s=0.3)
    job.refresh_from_db()
    assert (job.state, holds(job.id)) == ("starting", [("a", 4)])
    assert turn() == 0  # the victim has the lowest priority
    assert stopping() == ["low-0"]


@pytest.mark.usefixtures("automatic")
def test_jobs_of_equal_priority_are_not_preempted() -> None:
    low([0, 1, 2, 3], priority=5)
    low([4, 5, 6, 7], priority=5)
    urgent(2)
    assert turn() == 0
    assert proposals() == []


@pytest.mark.usefixtures("previewed")
def test_a_proposal_is_withdrawn_once_its_job_does_not_wait() -> None:
    full()
    job = urgent(2)
    turn()
    Job.objects.filter(id=job.id).update(held=True, shape=None)
    turn()
    assert proposals() == [("withdrawn", 1, "The job no longer waits.")]


@pytest.mark.usefixtures("previewed")
def test_a_proposal_is_replaced_if_its_victims_end() -> None:
    victim = full()
    urgent(4)
    turn()
    end(victim)
    turn()
    ((state, _, message),) = proposals()
    assert (state, message) == (
        "withdrawn", "Enough units are free. The next evaluation may place the job.",
    )  # fmt: skip


@pytest.mark.usefixtures("previewed")
def test_a_proposal_stays_while_its_victims_are_right_and_others_lose_little_less() -> None:
    low([0, 1, 2, 3])
    other = low([4, 5, 6, 7])
    urgent(4)
    turn()
    Job.objects.filter(id=other.id).update(started_s=NOW_S - 40.0)  # loses 160, not 240
    assert turn() == 0
    assert [state for state, _, _ in proposals()] == ["proposed"]


@pytest.mark.usefixtures("previewed")
def test_a_proposal_is_replaced_if_others_lose_much_less() -> None:
    first, other = low([0, 1, 2, 3]), low([4, 5, 6, 7])
    Job.objects.filter(id=first.id).update(started_s=NOW_S - 1200.0)
    Job.objects.filter(id=other.id).update(started_s=NOW_S - 1500.0)
    urgent(4)
    turn()
    assert [each["name"] for each in PreemptionProposal.objects.get().preview] == ["low-0"]
    Job.objects.filter(id=other.id).update(started_s=NOW_S - 10.0)
    assert turn() == 1
    assert proposals() == [
        ("withdrawn", 1, "Other victims would lose less now."), ("proposed", 1, ""),
    ]  # fmt: skip


@pytest.mark.usefixtures("previewed")
def test_a_proposal_is_replaced_with_the_reason_if_a_victim_ends() -> None:
    first = low([0, 1, 2, 3])
    low([4, 5, 6, 7])
    urgent(8, gang=True)
    turn()
    end(first)
    assert turn() == 1
    assert proposals() == [("withdrawn", 2, "low-0 no longer runs."), ("proposed", 1, "")]


@pytest.mark.usefixtures("previewed")
def test_an_operators_other_choice_withdraws_the_proposal() -> None:
    full()
    job = urgent(2)
    turn()
    proposal = PreemptionProposal.objects.get()
    proposal.preview[0]["launch"] = 0
    proposal.save()
    preempt(job.id, preview_preemption(job.id).basis)
    ((state, _, message),) = proposals()
    assert (state, message) == (
        "withdrawn", "An operator has preempted other jobs for the job.",
    )  # fmt: skip


@pytest.mark.usefixtures("automatic")
def test_the_job_of_the_highest_priority_has_the_first_choice() -> None:
    full()
    low_one = urgent(4, priority=3)
    high = urgent(4, priority=7)
    turn()
    first = PreemptionProposal.objects.order_by("id").first()
    assert first is not None
    assert first.job_id == high.id
    assert low_one.id != high.id
    assert launch_of(Job.objects.get(name="low-0")).cancel_requested


@pytest.mark.usefixtures("automatic")
def test_jobs_of_higher_priority_that_no_victim_helps_hold_back_no_other() -> None:
    full()
    for _ in range(JOBS_AT_ONCE):
        urgent(64, priority=9)
    urgent(2)
    propose_preemptions()
    assert stopping() == []
    propose_preemptions()
    assert stopping() == ["low-0"]


@pytest.mark.usefixtures("automatic")
def test_more_jobs_without_victims_than_are_considered_hold_back_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proposed_preemptions, "JOBS_CONSIDERED", 8)
    full()
    for _ in range(10):
        urgent(64, priority=9)
    urgent(2)
    for _ in range(10 // (JOBS_AT_ONCE - URGENT_AT_ONCE) + 1):
        propose_preemptions()
    assert stopping() == ["low-0"]


@pytest.mark.usefixtures("automatic")
def test_an_urgent_job_is_tried_again_before_all_others_were_tried(
    monkeypatch: pytest.MonkeyPatch, settings: LazySettings
) -> None:
    monkeypatch.setattr(proposed_preemptions, "PAUSE_S", 0)
    monkeypatch.setattr(proposed_preemptions, "JOBS_CONSIDERED", 1)
    settings.PREEMPTIONS_PER_HOUR = 0
    full()
    urgent(2, priority=9)
    for _ in range(2 * JOBS_AT_ONCE):
        urgent(64)
    propose_preemptions()
    settings.PREEMPTIONS_PER_HOUR = 3
    propose_preemptions()
    assert stopping() == ["low-0"]


def test_the_jobs_to_preempt_for_are_looked_up_by_shape_however_many_jobs_wait() -> None:
    full()
    jobs = [urgent(2, priority=9, created_by=factories.user()) for _ in range(6)]
    for job in jobs:
        same = {"shape_id": job.shape_id, "project": job.project, "created_by": job.created_by}
        flood(job.application, 500, state="queued", priority=9, **same)
    analyze()
    with CaptureQueriesContext(connection) as statements:
        found = jobs_to_preempt_for(["NoFreeUnit"], limit=1, besides=[jobs[0].id])
    (statement,) = [each["sql"] for each in statements]
    assert found == [jobs[1].id]
    assert 0 < rows_read(statement, alias="j") <= 2  # that one, and the next


@pytest.mark.usefixtures("previewed")
def test_proposals_that_wait_for_an_operator_hold_back_no_other() -> None:
    full()
    for _ in range(JOBS_AT_ONCE):
        urgent(2, priority=9)
    last = urgent(2)
    assert propose_preemptions() == JOBS_AT_ONCE
    assert propose_preemptions() == 1
    assert PreemptionProposal.objects.latest("id").job_id == last.id


@pytest.mark.usefixtures("previewed")
def test_stale_proposals_are_looked_up_one_by_one_however_many_jobs_wait() -> None:
    full()
    job = urgent(2)
    turn()
    flood(job.application, 2_000, state="queued", created_by=job.created_by)
    analyze()
    with CaptureQueriesContext(connection) as statements:
        withdraw_stale()
    (statement,) = [each["sql"] for each in statements]
    assert proposals()[0][0] == "proposed"
    assert 0 < rows_read(statement) <= 2
