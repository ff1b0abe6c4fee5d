"""Approval of proposed preemptions: exactly the named victims, within the limits, or nothing."""

from collections.abc import Sequence

import pytest
from django.conf import LazySettings
from django.core.cache import cache

from apps.accounts.models import AuditEntry
from apps.common.core.errors import ConflictError, NotFoundError
from apps.execution.models import PreemptionProposal
from apps.execution.services import preemption_approval
from apps.execution.services.preemption_approval import (
    Difference,
    LimitsExceededError,
    ProposalChangedError,
    approve_proposal,
    check_proposal,
    dismiss_proposal,
)
from apps.execution.services.proposed_preemptions import propose_preemptions, renew_proposal
from apps.inventory.models import Cluster
from apps.scheduling.models import Reservation
from apps.workloads.models import Job
from tests import factories
from tests.execution.migration_world import end, launch_of
from tests.execution.preemption_world import NOW_S, low, urgent, world
from tests.execution.proposal_world import preempted_before, stopping

pytestmark = pytest.mark.django_db
__all__ = ["world"]  # a fixture of all tests


@pytest.fixture(autouse=True)
def limits(settings: LazySettings) -> None:
    cache.clear()
    settings.PREEMPTION = "previewed"
    settings.PREEMPTIONS_PER_JOB = 2
    settings.PREEMPTIONS_PER_HOUR = 3
    settings.PREEMPTION_COOLDOWN_S = 600.0


def proposed(job: Job, *victims: Job) -> int:
    return factories.preemption_proposal(job, *victims).pk


def refused(number: int) -> Difference:
    with pytest.raises(ProposalChangedError) as raised:
        approve_proposal(number)
    assert (stopping(), Reservation.objects.count()) == ([], 0)
    assert PreemptionProposal.objects.get(pk=number).state == "proposed"
    return raised.value.difference


def test_exactly_the_named_victim_is_stopped_although_another_loses_less() -> None:
    named = low([0, 1, 2, 3])
    low([4, 5, 6, 7], "cheaper")
    Job.objects.filter(id=named.id).update(started_s=NOW_S - 900.0)
    number = proposed(urgent(2), named)
    done = approve_proposal(number)
    assert stopping() == ["low-0"]
    assert (done.state, done.decided_s, done.overridden) == ("applied", NOW_S, [])
    assert len(Reservation.objects.get().unit_ids) == 2


def test_a_victim_that_has_ended_is_named_and_nothing_is_stopped() -> None:
    first, second = low([0, 1, 2, 3]), low([4, 5, 6, 7])
    number = proposed(urgent(8, gang=True), first, second)
    end(first)
    assert refused(number) == Difference(gone=("low-0",))


def test_a_victim_that_was_launched_again_is_not_the_one_that_was_approved() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    proposal = factories.preemption_proposal(urgent(2), victim)
    proposal.preview[0]["launch"] = launch_of(victim).id - 1
    proposal.save()
    assert refused(proposal.pk) == Difference(gone=("low-0",))


def test_a_victim_that_is_no_longer_needed_is_not_stopped() -> None:
    first, second = low([0, 1, 2, 3]), low([4, 5])
    low([6, 7], priority=5)
    number = proposed(urgent(2), first, second)
    assert refused(number) == Difference(not_needed=("low-0",))


def test_free_units_make_all_victims_needless() -> None:
    victim = low([0, 1, 2, 3])
    assert refused(proposed(urgent(2), victim)) == Difference(not_needed=("low-0",))


def test_a_victim_that_would_now_miss_its_target_is_not_stopped() -> None:
    victim = low([0, 1, 2, 3], target={"kind": "ips", "ips": 1.0})
    low([4, 5, 6, 7], priority=5)
    assert refused(proposed(urgent(2), victim)) == Difference(missed=("low-0",))


def test_victims_that_make_too_little_room_are_refused() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], "other")
    difference = refused(proposed(urgent(8, gang=True), victim))
    assert difference == Difference(reason=preemption_approval.NO_ROOM)


def test_a_quota_that_refuses_the_job_by_now_is_the_reason() -> None:
    web = factories.project("web")
    victim = low([0, 1, 2, 3], project=web)
    low([4, 5, 6, 7], priority=5)
    number = proposed(urgent(4), victim)
    web.guaranteed_units = 4
    web.save()
    assert refused(number).message.startswith("Its quota would still refuse the job: project ")


def test_a_job_that_no_longer_waits_is_the_reason() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    job = urgent(2)
    number = proposed(job, victim)
    Job.objects.filter(id=job.id).update(held=True, shape=None)
    assert refused(number).reason == "The job is on hold. Release it first."


@pytest.mark.parametrize(
    ("difference", "message"),
    [
        (Difference(gone=("a",)), "a no longer runs."),
        (Difference(gone=("a", "b")), "a, b no longer run."),
        (Difference(not_needed=("a",), missed=("b",)),
         "a need not be stopped. b would now miss its target."),
        (Difference(gone=tuple("abcdefg")), "a, b, c, d, e and 2 more no longer run."),
        (Difference(gone=("a",), reason="No room."), "a no longer runs. No room."),
    ],
    ids=["one", "two", "several kinds", "many", "reason"],
)  # fmt: skip
def test_a_difference_reads_as_sentences(difference: Difference, message: str) -> None:
    assert difference.message == message


def test_a_change_between_check_and_approval_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    number = proposed(urgent(2), victim)
    check = preemption_approval.check_proposal

    def late(proposal: PreemptionProposal) -> object:
        answer = check(proposal)
        end(victim)
        return answer

    monkeypatch.setattr(preemption_approval, "check_proposal", late)
    with pytest.raises(ConflictError, match="have changed"):
        approve_proposal(number)
    assert (stopping(), Reservation.objects.count()) == ([], 0)


def test_a_proposal_that_was_withdrawn_meanwhile_is_refused_with_its_message() -> None:
    victim = low([0, 1, 2, 3])
    number = proposed(urgent(2), victim)
    PreemptionProposal.objects.update(state="withdrawn", message="The job no longer waits.")
    with pytest.raises(ConflictError, match=r"is withdrawn. The job no longer waits\."):
        approve_proposal(number)


# ---- limits ----


def exceeded(job: Job, victims: Sequence[Job]) -> list[str]:
    number = proposed(job, *victims)
    with pytest.raises(LimitsExceededError) as raised:
        approve_proposal(number)
    assert stopping() == []
    return [each.limit.value for each in raised.value.exceeded]


@pytest.mark.parametrize(
    ("times", "ago_s", "limits_hit"),
    [(1, 599.0, ["cooldown"]), (2, 600.0, ["per_victim"]), (2, 10.0, ["per_victim", "cooldown"])],
    ids=["cool-down", "too often", "both"],
)
def test_a_victim_that_was_preempted_before_is_protected(
    times: int, ago_s: float, limits_hit: list[str]
) -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    preempted_before(victim, times, NOW_S - ago_s)
    assert exceeded(urgent(2), [victim]) == limits_hit


def test_victims_per_hour_are_bounded() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    factories.preemption_proposal(
        factories.job(), state="applied", victims=3, decided_s=NOW_S - 3599.0
    )
    assert exceeded(urgent(2), [victim]) == ["per_hour"]


def test_an_hour_later_they_are_forgotten() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    factories.preemption_proposal(
        factories.job(), state="applied", victims=3, decided_s=NOW_S - 3600.0
    )
    approve_proposal(proposed(urgent(2), victim))
    assert stopping() == ["low-0"]


def test_a_job_preempts_others_a_limited_number_of_times() -> None:
    victim, job = low([0, 1, 2, 3]), urgent(2)
    low([4, 5, 6, 7], priority=5)
    for _ in range(2):
        factories.preemption_proposal(job, state="applied", decided_s=0.0)
    assert exceeded(job, [victim]) == ["per_job"]


def test_an_operator_overrides_a_limit_and_it_is_recorded() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    factories.preemption_proposal(
        factories.job(), state="applied", victims=3, decided_s=NOW_S - 10.0
    )
    done = approve_proposal(proposed(urgent(2), victim), override_limits=True)
    assert stopping() == ["low-0"]
    expected = {
        "limit": "per_hour",
        "setting": "BERTH_PREEMPTIONS_PER_HOUR",
        "message": "Only 0 more jobs may be preempted within this hour.",
    }
    assert done.overridden == [expected]
    entry = AuditEntry.objects.get(action="job.preempting")
    assert entry.after is not None
    assert entry.after["overridden"] == [expected]


# ---- dismissal and renewal ----


def test_a_dismissed_proposal_is_not_repeated_during_the_cool_down() -> None:
    low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    urgent(2)
    assert propose_preemptions() == 1
    dismissed = dismiss_proposal(PreemptionProposal.objects.get().pk)
    assert (dismissed.state, dismissed.decided_s) == ("dismissed", NOW_S)
    assert propose_preemptions() == 0
    Cluster.objects.update(seen_cluster_s=NOW_S + 601.0)
    assert propose_preemptions() == 1
    assert AuditEntry.objects.filter(action="job.preemption_dismissed").count() == 1


def test_a_proposal_is_decided_once() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    number = proposed(urgent(2), victim)
    approve_proposal(number)
    with pytest.raises(ConflictError, match="is applied"):
        dismiss_proposal(number)
    with pytest.raises(ConflictError, match="is applied"):
        approve_proposal(number)


def test_a_changed_proposal_is_renewed_with_other_victims() -> None:
    gone = low([0, 1])
    low([2, 3], "next")
    low([4, 5, 6, 7], priority=5)
    number = proposed(urgent(4), gone)
    renewed = renew_proposal(number, "low-0 no longer runs.")
    assert renewed is not None
    assert [each["name"] for each in renewed.preview] == ["low-0", "next"]
    old = PreemptionProposal.objects.get(pk=number)
    assert (old.state, old.message) == ("withdrawn", "low-0 no longer runs.")
    assert check_proposal(renewed)[1] is None


def test_a_proposal_is_not_renewed_if_no_victims_are_left() -> None:
    victim = low([0, 1, 2, 3])
    number = proposed(urgent(2), victim)
    assert renew_proposal(number, "low-0 need not be stopped.") is None


def test_unknown_proposals_are_not_found() -> None:
    with pytest.raises(NotFoundError, match="no preemption proposal 12345"):
        approve_proposal(12345)
    with pytest.raises(NotFoundError):
        dismiss_proposal(12345)
