"""Members of arrays are held beyond the limit and released as others end."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.db import transaction

from apps.common.core.errors import ConflictError
from apps.inventory.services import start_clock
from apps.operations.models import Event
from apps.workloads.core.arrays import parse_array
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Batch, Job
from apps.workloads.selectors import array_states
from apps.workloads.services import (
    JobEnd,
    cancel_array,
    cancel_jobs,
    claim_waiting,
    end_jobs,
    fail_waiting,
    record_transitions,
    release_members,
    release_unreleased,
    requeue_lost,
    resubmit,
    set_array_limit,
    set_held,
    submit_array,
)
from apps.workloads.services.arrays import lock_array
from tests import factories
from tests.races import assert_locks_in_order, at_once, in_background, wait_for_a_waiter

pytestmark = pytest.mark.django_db(transaction=True)
WAITING = Reason.WAITING_FOR_ARRAY


def array_of(size: int, limit: int | None = None, **fields: Any) -> Batch:
    start_clock(speed=1.0)
    spec = parse_job({"application": "a", "target": {"kind": "best_effort"}, **fields})
    array = parse_array({"size": size, "limit": limit}, at="", max_size=1000)
    user, project = factories.user(), factories.project()
    with transaction.atomic():
        return submit_array(spec, array, project=project, user=user, correlation_id="r")


def member(array: Batch, index: int) -> Job:
    return Job.objects.get(batch=array, array_index=index)


def free(array: Batch) -> list[int]:
    """Return the indexes of the members that are open and not held."""
    rows = Job.objects.filter(batch=array, held=False, finished_at=None)
    return sorted(
        index for index in rows.values_list("array_index", flat=True) if index is not None
    )


def run(*jobs: Job) -> None:
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(state="running", started_s=1.0)


def end(*jobs: Job) -> None:
    with transaction.atomic():
        ended = [JobEnd(job.pk, JobState.SUCCEEDED, 9.0, Reason.SUCCEEDED) for job in jobs]
        record_transitions(end_jobs(ended))


@contextmanager
def locked(array: Batch, act: Callable[[], object]) -> Iterator[None]:
    """Lock an array while another connection acts and waits for it."""
    with ExitStack() as acting, transaction.atomic():
        lock_array(array.pk)
        acting.enter_context(in_background(act))
        wait_for_a_waiter()
        yield


def test_members_beyond_the_limit_wait_for_their_array() -> None:
    array = array_of(5, 2)
    assert free(array) == [0, 1]
    last = member(array, 4)
    assert (last.held, last.reason_code, last.name) == (True, WAITING, "a-4")
    assert (array.total, array.array_indexes, array.array_limit) == (5, "0-4", 2)


def test_agents_claim_only_the_members_within_the_limit() -> None:
    array = array_of(5, 2)
    claimed = claim_waiting(agent="agent", limit=10)
    assert set(claimed) == {member(array, 0).pk, member(array, 1).pk}


def test_the_end_of_a_member_releases_the_next_one() -> None:
    array = array_of(5, 2)
    run(member(array, 0), member(array, 1))
    end(member(array, 1))
    assert free(array) == [0, 2]
    assert member(array, 2).reason_code == Reason.WAITING_FOR_AGENT
    assert Event.objects.filter(kind="job.released", subject=str(member(array, 2).pk)).exists()


def test_the_end_of_other_jobs_releases_nothing() -> None:
    array = array_of(3, 1)
    other = factories.job(state="running")
    end(other)
    assert free(array) == [0]


def test_nothing_is_released_if_the_end_is_rolled_back() -> None:
    array = array_of(3, 1)
    run(member(array, 0))
    with transaction.atomic():
        end(member(array, 0))
        transaction.set_rollback(True)
    assert free(array) == [0]


def test_members_that_end_together_release_as_many() -> None:
    array = array_of(6, 3)
    run(*(member(array, i) for i in range(3)))
    end(member(array, 0), member(array, 2))
    assert free(array) == [1, 3, 4]


def test_the_failure_and_the_cancellation_of_a_member_release_others() -> None:
    array = array_of(5, 1)
    fail_waiting([member(array, 0).pk], reason=Reason.NO_MATCHING_SERVER, message="none")
    assert free(array) == [1]
    cancel_jobs([member(array, 1).pk])
    assert free(array) == [2]


def test_without_a_limit_all_members_start() -> None:
    assert free(array_of(4)) == [0, 1, 2, 3]


def test_two_members_that_end_at_once_release_two() -> None:
    array = array_of(6, 2)
    first, second = member(array, 0), member(array, 1)
    run(first, second)
    jobs = iter([first, second])
    at_once(2, lambda: end(next(jobs)))
    assert free(array) == [2, 3]


def test_an_end_during_a_release_waits_for_it_and_releases_another_member() -> None:
    array = array_of(6, 2)
    first, second = member(array, 0), member(array, 1)
    run(first, second)
    with locked(array, lambda: end(second)):
        assert free(array) == [0], "the end itself is committed"
    assert free(array) == [0, 2]


def test_a_release_that_was_lost_with_its_process_is_repaired() -> None:
    array = array_of(4, 2)
    Job.objects.filter(pk=member(array, 0).pk).update(
        state="succeeded", finished_s=9.0, finished_at=factories.MOMENT
    )
    assert free(array) == [1]
    assert release_unreleased() == 1
    assert free(array) == [1, 2]
    assert release_unreleased() == 0


def test_releasing_twice_changes_nothing() -> None:
    array = array_of(4, 2)
    assert release_members([array.pk]) == 0
    assert free(array) == [0, 1]


def test_a_cancelled_array_releases_no_member() -> None:
    array = array_of(5, 2)
    run(member(array, 0))
    assert cancel_array(array.pk) == (5, 5)
    assert array_states(array.pk) == ({"running": 1, "cancelled": 4}, 0)
    end(member(array, 0))
    assert array_states(array.pk) == ({"succeeded": 1, "cancelled": 4}, 0)


def test_an_array_that_is_cancelled_during_a_release_ends_whole() -> None:
    array = array_of(5, 1)
    run(member(array, 0))
    end(member(array, 0))
    with locked(array, lambda: cancel_array(array.pk)):
        Job.objects.filter(pk=member(array, 2).pk).update(held=False, reason_code="")
    assert array_states(array.pk) == ({"succeeded": 1, "cancelled": 4}, 0)


def test_a_release_that_waits_for_a_cancellation_releases_nothing() -> None:
    array = array_of(4, 1)
    Job.objects.filter(pk=member(array, 0).pk).update(
        state="succeeded", finished_s=9.0, finished_at=factories.MOMENT
    )
    with locked(array, release_unreleased):
        cancel_array(array.pk)
    assert array_states(array.pk) == ({"succeeded": 1, "cancelled": 3}, 0)


def test_releases_lock_jobs_in_order() -> None:
    array = array_of(3, 1)
    Job.objects.filter(pk=member(array, 0).pk).update(
        state="succeeded", finished_s=9.0, finished_at=factories.MOMENT
    )
    Batch.objects.filter(pk=array.pk).update(array_limit=2)
    waiting = [member(array, 1).pk, member(array, 2).pk]
    assert_locks_in_order(Job, waiting, release_unreleased)
    assert free(array) == [1, 2]


def test_a_requeued_member_keeps_its_index_and_its_place() -> None:
    array = array_of(3, 1)
    first = member(array, 0)
    run(first)
    with transaction.atomic():
        record_transitions(requeue_lost([first.pk], reason=Reason.BACKEND_LOST, message="lost"))
    again = member(array, 0)
    assert (again.pk, again.state, again.held) == (first.pk, "queued", False)
    assert free(array) == [0]


def test_a_rerun_member_keeps_its_index_and_waits_for_the_limit() -> None:
    array = array_of(3, 1)
    first = member(array, 0)
    run(first)
    end(first)
    ended = Job.objects.select_related("project", "application").get(pk=first.pk)
    spec = parse_job({"application": "a", "target": {"kind": "best_effort"}})
    with transaction.atomic():
        again = resubmit(ended, spec, user=factories.user(), correlation_id="r")
    again.refresh_from_db()
    assert (again.batch_id, again.array_index, again.reason_code) == (array.pk, 0, WAITING)
    run(member(array, 1))
    end(member(array, 1))
    again.refresh_from_db()
    assert (again.held, member(array, 2).held) == (False, True), "the lowest index first"


def test_a_rerun_of_another_job_joins_no_array() -> None:
    start_clock(speed=1.0)
    job = factories.job(state="succeeded")
    spec = parse_job({"application": job.application.name, "target": {"kind": "best_effort"}})
    with transaction.atomic():
        again = resubmit(job, spec, user=factories.user(), correlation_id="r")
    assert (again.batch_id, again.array_index, again.held) == (None, None, False)


def test_a_higher_limit_releases_members() -> None:
    array = array_of(5, 1)
    set_array_limit(array.pk, 3)
    assert free(array) == [0, 1, 2]
    set_array_limit(array.pk, None)
    assert free(array) == [0, 1, 2, 3, 4]


def test_a_lower_limit_holds_the_last_members_that_wait_for_units() -> None:
    array = array_of(5, 4)
    run(member(array, 0), member(array, 3))
    Job.objects.filter(pk=member(array, 2).pk).update(claimed_by="agent")
    set_array_limit(array.pk, 1)
    assert free(array) == [0, 3], "started members run on"
    held = member(array, 2)
    assert (held.reason_code, held.claimed_by) == (WAITING, "")
    end(member(array, 0))
    assert free(array) == [3]
    end(member(array, 3))
    assert free(array) == [1]


def test_a_member_that_its_user_holds_gives_its_place_to_the_next() -> None:
    array = array_of(4, 1)
    set_held(member(array, 0).pk, held=True)
    assert free(array) == [1]
    assert member(array, 0).reason_code == Reason.HELD


def test_a_member_that_its_user_releases_waits_for_the_limit() -> None:
    array = array_of(4, 1)
    first = member(array, 0)
    set_held(first.pk, held=True)
    set_held(first.pk, held=False)
    assert (free(array), member(array, 0).reason_code) == ([1], WAITING)
    run(member(array, 1))
    end(member(array, 1))
    assert free(array) == [0]


def test_members_that_are_released_while_they_are_profiled_wait_for_their_profile() -> None:
    array = array_of(2, limit=1)
    Job.objects.filter(batch=array).update(state="profiling")
    set_array_limit(array.pk, 2)
    assert member(array, 1).reason_code == Reason.WAITING_FOR_PROFILE


def test_a_job_that_is_released_while_it_is_profiled_waits_for_its_profile() -> None:
    job = factories.job(state="profiling")
    set_held(job.pk, held=True)
    set_held(job.pk, held=False)
    job.refresh_from_db()
    assert job.reason_code == Reason.WAITING_FOR_PROFILE


def test_a_user_may_hold_but_not_release_a_member_beyond_the_limit() -> None:
    array = array_of(3, 1)
    with pytest.raises(ConflictError, match="raise the limit"):
        set_held(member(array, 1).pk, held=False)
    set_held(member(array, 1).pk, held=True)
    run(member(array, 0))
    end(member(array, 0))
    assert free(array) == [2], "a member on hold is not released"


def test_an_array_may_be_submitted_on_hold() -> None:
    array = array_of(3, 1, held=True)
    assert free(array) == []
    set_held(member(array, 1).pk, held=False)
    assert free(array) == [1]


def test_counts_need_one_statement(django_assert_num_queries: Any) -> None:
    array = array_of(5, 2)
    run(member(array, 0))
    with django_assert_num_queries(1):
        assert array_states(array.pk) == ({"running": 1, "submitted": 4}, 3)


def test_an_end_outside_arrays_needs_no_more_statements(django_assert_num_queries: Any) -> None:
    start_clock(speed=1.0)
    jobs = [factories.job(state="running") for _ in range(3)]
    ended = [JobEnd(job.pk, JobState.SUCCEEDED, 9.0, Reason.SUCCEEDED) for job in jobs]
    with transaction.atomic(), django_assert_num_queries(2):
        end_jobs(ended)


@pytest.mark.parametrize("members", [10, 60])
def test_the_statements_of_a_release_do_not_depend_on_the_members(
    members: int, django_assert_max_num_queries: Any
) -> None:
    array = array_of(members, members // 2)
    run(*Job.objects.filter(batch=array, held=False))
    Job.objects.filter(batch=array, held=False).update(
        state="failed", finished_s=9.0, finished_at=factories.MOMENT
    )
    with django_assert_max_num_queries(10):
        assert release_members([array.pk]) == members // 2
