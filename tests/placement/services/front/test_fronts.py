"""Front searches on a worker: versions, progress, stopping and recovery."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.common.core.errors import InvalidInputError
from apps.inventory.models import Server
from apps.operations.core.states import OperationStatus
from apps.operations.models import Event, Operation
from apps.operations.services import cancel_operation, release_expired_operations
from apps.placement.core.front.archive import hypervolume, losses, representatives
from apps.placement.core.front.mix import mix_of
from apps.placement.core.preference.derivation import PreferenceInput
from apps.placement.core.problem.examples import generate_instance
from apps.placement.core.problem.objectives import evaluate
from apps.placement.models import ContainerClass, Front, FrontVersion
from apps.placement.selectors import fronts as selectors
from apps.placement.selectors.drift import running_mix
from apps.placement.selectors.preferences import FrontPicking
from apps.placement.services.front import fronts as services
from apps.placement.services.front import versions as front_versions
from apps.placement.services.front.fronts import (
    FrontRequest,
    Workload,
    prune_fronts,
    prune_versions,
    request_front,
    search_next_front,
)
from apps.placement.services.preference.sets import NewPreferenceSet, create_preference_set
from apps.placement.tasks.fronts import search_fronts, solve_on_worker
from apps.workloads.models import Job
from tests import factories
from tests.placement.front_world import (
    PLAIN,
    REAL,
    empty,
    nothing_runs,
    requested_front,
    searched_front,
    ticking,
    versions,
)
from tests.races import at_once


@pytest.fixture
def olga(db: None) -> User:
    return factories.user("olga")


def kinds(front: Front) -> list[str]:
    events = Event.objects.filter(topic="fronts", subject=str(front.pk)).order_by("seq")
    return [event.kind for event in events]


def test_a_front_gets_better_version_by_version(olga: User) -> None:
    front = searched_front(olga)
    rows = versions(front)
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 2
    volumes = [row.hypervolume for row in rows]
    assert volumes == sorted(volumes)
    assert rows[0].seconds < 1.0
    assert rows[-1].generations > rows[0].generations
    assert front.operation.status == OperationStatus.SUCCEEDED
    assert front.operation.progress == front.operation.total == 100
    assert (front.operation.result or {})["version"] == rows[-1].number
    assert kinds(front) == ["front.created", *["front.version"] * len(rows), "front.finished"]


def test_an_exact_front_is_one_version(olga: User) -> None:
    (row,) = versions(searched_front(olga, generate_instance(PLAIN, 3)))
    assert row.is_exact
    assert row.generations == 0


def test_points_have_the_objectives_of_their_placements(olga: User) -> None:
    front = searched_front(olga)
    version = versions(front)[-1]
    points, placed = selectors.points_of(version), selectors.assignments_of(version.pk)
    instance = selectors.instance_of(front.pk)
    judged = [evaluate(instance, each) for each in placed]
    assert points.raw == pytest.approx(np.array([[e.raw[o] for o in "PDC"] for e in judged]))
    values = np.array([[e.normalised[o] for o in "PDC"] for e in judged])
    assert points.normalised == pytest.approx(values)
    assert version.shown == version.points == len(placed)
    assert hypervolume(losses(points.normalised)) == pytest.approx(version.hypervolume)


def test_representative_points_are_nested(olga: User) -> None:
    points = selectors.points_of(versions(searched_front(olga))[-1])
    few, more = points.representatives(5), points.representatives(12)
    assert (few.size, more.size) == (5, 12)
    assert set(few.tolist()) < set(more.tolist())
    assert few.tolist() == representatives(losses(points.normalised), 5).tolist()
    assert points.representatives(None).size == len(points.raw)


def test_the_submitted_instance_is_stored_unchanged(olga: User) -> None:
    instance = generate_instance(REAL, 1)
    stored_instance = selectors.instance_of(searched_front(olga, instance).pk)
    assert (stored_instance.node_ids, stored_instance.container_ids) == (
        instance.node_ids,
        instance.container_ids,
    )
    assert stored_instance.intensity.tolist() == instance.intensity.tolist()
    assert (
        stored_instance.communication[stored_instance.job].tolist()
        == instance.communication[instance.job].tolist()
    )


def test_a_front_has_reference_placements(olga: User) -> None:
    front = searched_front(olga, generate_instance(REAL, 1))
    assert [anchor["name"] for anchor in front.anchors] == ["SlotRR", "NodeRR"]
    assert front.scales["P"] == generate_instance(REAL, 1).peak_watts.sum()
    runs = generate_instance(
        PLAIN.__class__(containers=20, nodes=20, nodes_per_rack=10, occupied=0.5), 3
    )
    assert [a["name"] for a in searched_front(olga, runs).anchors] == ["now", "SlotRR", "NodeRR"]


def test_the_history_records_the_progress(olga: User) -> None:
    front = searched_front(olga)
    volumes = [version["hypervolume"] for version in front.history]
    assert len(volumes) > 5
    assert volumes == sorted(volumes)
    assert front.history[-1]["hypervolume"] == versions(front)[-1].hypervolume


def test_a_long_history_is_thinned(olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_versions, "_MAX_HISTORY", 10)
    front = searched_front(olga)
    assert 5 <= len(front.history) <= 10
    seconds = [version["seconds"] for version in front.history]
    assert seconds == sorted(seconds)
    assert front.history[-1]["hypervolume"] == versions(front)[-1].hypervolume


def test_fronts_are_numbered_in_order(olga: User) -> None:
    assert [str(requested_front(olga)), str(requested_front(olga))] == ["f-0001", "f-0002"]


def test_one_front_is_searched_at_a_time_the_oldest_first(olga: User) -> None:
    first, second = requested_front(olga), requested_front(olga)
    Operation.objects.filter(pk=first.operation_id).update(status="running")
    assert search_next_front(nothing_runs, clock=ticking()) is None
    Operation.objects.filter(pk=first.operation_id).update(status="pending")
    assert search_next_front(nothing_runs, clock=ticking()) == first.pk
    assert search_next_front(nothing_runs, clock=ticking()) == second.pk
    assert search_next_front(nothing_runs, clock=ticking()) is None


def during(monkeypatch: pytest.MonkeyPatch, number: int, act: Any) -> None:
    """Call a function right after the version with this number was written."""
    write = front_versions.VersionRecorder._write

    def writing(self: front_versions.VersionRecorder, front: Any) -> FrontVersion:
        row = write(self, front)
        if row.number == number:
            act(self._front)
        return row

    monkeypatch.setattr(front_versions.VersionRecorder, "_write", writing)


def test_a_stopped_search_keeps_its_versions(olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    during(monkeypatch, 1, services.stop_front)
    front = searched_front(olga, budget_s=50.0)
    assert front.operation.status == OperationStatus.CANCELLED
    assert 1 <= len(versions(front)) <= 2
    assert versions(front)[-1].seconds < 3.0
    assert kinds(front)[-1] == "front.finished"


def test_a_queued_front_is_stopped_at_once(olga: User) -> None:
    front = requested_front(olga)
    services.stop_front(front)
    assert Operation.objects.get(pk=front.operation_id).status == OperationStatus.CANCELLED
    assert kinds(front) == ["front.created", "front.finished"]
    assert search_next_front(nothing_runs, clock=ticking()) is None


def test_a_search_continues_from_its_last_version_if_its_worker_dies(
    olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PowerCutError(BaseException):
        pass

    def die(_: Front) -> None:
        raise PowerCutError

    front = requested_front(olga, budget_s=20.0)
    with monkeypatch.context() as cut:
        during(cut, 3, die)
        with pytest.raises(PowerCutError):
            search_next_front(nothing_runs, clock=ticking())
    before = versions(front)[-1]
    assert before.number == 3
    assert search_next_front(nothing_runs, clock=ticking()) is None  # the lease still runs
    Operation.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    release_expired_operations()
    assert search_next_front(nothing_runs, clock=ticking()) == front.pk
    front.refresh_from_db()
    rows = versions(front)
    assert front.operation.status == OperationStatus.SUCCEEDED
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert rows[3].hypervolume >= before.hypervolume
    assert rows[-1].seconds > before.seconds
    assert [version["seconds"] for version in front.history] == sorted(
        version["seconds"] for version in front.history
    )


def test_a_worker_that_lost_its_search_writes_nothing(
    olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_over(front: Front) -> None:
        row = Operation.objects.get(pk=front.operation_id)
        row.arguments["attempt"] = 2
        row.save()

    during(monkeypatch, 1, take_over)
    front = searched_front(olga)
    assert len(versions(front)) == 1
    assert front.operation.status == OperationStatus.RUNNING


def test_a_search_whose_workers_die_fails(olga: User) -> None:
    front = requested_front(olga)
    Operation.objects.filter(pk=front.operation_id).update(arguments={"attempt": 3})
    assert search_next_front(nothing_runs, clock=ticking()) is None
    front.refresh_from_db()
    assert front.operation.status == OperationStatus.FAILED
    assert "died 3 times" in (front.operation.problem or {})["detail"]
    assert kinds(front)[-1] == "front.finished"


def test_a_front_of_the_cluster_reads_it_once(olga: User) -> None:
    instance = generate_instance(PLAIN, 3)
    moments: list[float | None] = []

    def read(at_s: float | None) -> Workload:
        moments.append(at_s)
        return Workload(instance, 7200.0)

    front = request_front(FrontRequest(budget_s=1.0, seed=0), by=olga.pk)
    assert (front.source, front.instance) == ("cluster", None)
    search_next_front(read, clock=ticking())
    front.refresh_from_db()
    assert moments == [None]
    assert (front.cluster_s, front.containers, front.nodes) == (7200.0, 20, 20)
    assert front.mix == mix_of(instance)
    assert versions(front)


def test_an_idle_cluster_has_no_front(olga: User) -> None:
    front = request_front(FrontRequest(budget_s=1.0, seed=0), by=olga.pk)
    search_next_front(lambda _: Workload(empty(), 1.0), clock=ticking())
    front.refresh_from_db()
    assert front.operation.status == OperationStatus.FAILED
    assert (front.operation.problem or {})["detail"].startswith("No container runs on the cluster")


def test_an_internal_error_fails_the_search_and_is_logged(
    olga: User, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: float | None) -> Workload:
        raise ZeroDivisionError

    front = request_front(FrontRequest(budget_s=1.0, seed=0), by=olga.pk)
    search_next_front(broken, clock=ticking())
    front.refresh_from_db()
    assert front.operation.status == OperationStatus.FAILED
    assert "f-0001" in caplog.text


def test_cancelling_its_operation_stops_a_front(
    olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    during(monkeypatch, 1, lambda front: cancel_operation(front.operation_id))
    assert searched_front(olga, budget_s=50.0).operation.status == OperationStatus.CANCELLED


def test_pauses_between_versions_grow_with_time(olga: User) -> None:
    front = requested_front(olga, budget_s=400.0)
    search_next_front(nothing_runs, clock=ticking(0.2))
    gaps = np.diff([row.seconds for row in versions(front)])
    assert gaps.max() >= 0.05 * 200.0
    assert len(gaps) < 80


def test_intermediate_versions_are_pruned_after_a_day(olga: User) -> None:
    front, other = searched_front(olga), searched_front(olga)
    kept_for_picks = versions(front)[0]
    picking = PreferenceInput("direct", wanted=dict.fromkeys("PDC", 1.0))
    create_preference_set(
        NewPreferenceSet("a", "", FrontPicking(picking, kept_for_picks)), by=olga.pk
    )
    last = versions(front)[-1]
    assert prune_versions() == 0
    yesterday = timezone.now() - timedelta(days=1, seconds=1)
    Operation.objects.filter(pk=front.operation_id).update(finished_at=yesterday)
    assert prune_versions() == last.number - 2
    assert [row.number for row in versions(front)] == [1, last.number]
    assert len(versions(other)) > 1
    assert prune_versions() == 0


@pytest.mark.django_db(transaction=True)
def test_one_of_two_workers_claims_a_front() -> None:
    front = requested_front(factories.user("olga"))
    claimed = at_once(4, services._claim_next)
    assert [claim.pk for claim in claimed if claim is not None] == [front.pk]


@pytest.mark.django_db(transaction=True)
def test_concurrently_requested_fronts_have_different_numbers() -> None:
    olga = factories.user("olga")
    numbers = at_once(4, lambda: requested_front(olga).number)
    assert sorted(numbers) == [1, 2, 3, 4]


def test_a_future_cluster_time_is_refused(olga: User) -> None:
    factories.cluster(seen_cluster_s=500.0)
    request_front(FrontRequest(budget_s=1.0, seed=0, cluster_s=500.0), by=olga.pk)
    with pytest.raises(
        InvalidInputError,
        match="/cluster_seconds: must not be later",
    ):
        request_front(FrontRequest(budget_s=1.0, seed=0, cluster_s=501.0), by=olga.pk)


@pytest.fixture
def running(olga: User) -> list[Job]:
    """Eight jobs of three containers each, on four servers of two racks."""
    factories.cluster(seen_cluster_s=7200.0)
    kind = factories.platform("J", cores=8)
    servers = [factories.server(of=kind, rack=f"rack-{i % 2}") for i in range(4)]
    jobs = []
    for i in range(8):
        about = factories.application()
        factories.profile(about)
        job = factories.job(state="running", application=about, started_s=3600.0, progress=0.1)
        for k in range(3):
            held = factories.allocation(job, servers[(i + k) % 4], cores=1)
            ContainerClass.objects.create(
                allocation_id=held.pk, job=job, read_s=7000.0, intensity=0.1 * i,
                is_taz=i > 4, communication=i % 3,
            )  # fmt: skip
        jobs.append(job)
    return jobs


def test_a_worker_searches_a_front_of_the_running_cluster(olga: User, running: list[Job]) -> None:
    factories.allocation(factories.job(state="starting"), Server.objects.all()[0], cores=1)
    front = request_front(FrontRequest(budget_s=0.5, seed=0), by=olga.pk)
    assert search_fronts() == str(front.pk)
    front.refresh_from_db()
    assert front.operation.status == OperationStatus.SUCCEEDED, front.operation.problem
    assert (front.containers, front.nodes, front.cluster_s) == (24, 4, 7200.0)
    assert [anchor["name"] for anchor in front.anchors] == ["now", "SlotRR", "NodeRR"]
    last = versions(front)[-1]
    assert set(selectors.points_of(last).worst_job) <= {str(job.pk) for job in running} | {None}
    assert front.mix == running_mix()
    assert search_fronts() is None


def test_a_check_solves_the_workload_of_the_front(olga: User, running: list[Job]) -> None:
    front = request_front(FrontRequest(budget_s=0.5, seed=0), by=olga.pk)
    search_fronts()
    star = solve_on_worker(front.pk, {"P": 1.0, "D": 0.5, "C": 0.2})
    lowest = selectors.points_of(versions(front)[-1]).normalised @ (1.0, -0.5, 0.2)
    assert lowest.min() + 1e-9 >= star.F


def test_fronts_without_a_preference_set_are_pruned_after_a_month(olga: User) -> None:
    old, saved, newest = searched_front(olga), searched_front(olga), searched_front(olga)
    picking = PreferenceInput("direct", wanted=dict.fromkeys("PDC", 1.0))
    create_preference_set(
        NewPreferenceSet("a", "", FrontPicking(picking, versions(saved)[0])), by=olga.pk
    )
    month_ago = timezone.now() - timedelta(days=30)
    assert prune_fronts(before=month_ago) == 0
    long_ago = timezone.now() - timedelta(days=30, seconds=1)
    for front in (old, saved, newest):
        Operation.objects.filter(pk=front.operation_id).update(finished_at=long_ago)
    assert prune_fronts(before=None) == 0
    assert prune_fronts(before=month_ago) == 1
    assert set(Front.objects.all()) == {saved, newest}
    assert not FrontVersion.objects.filter(front_id=old.pk).exists()


def test_a_front_with_a_new_preference_set_is_not_pruned(olga: User) -> None:
    saved = searched_front(olga)
    picking = PreferenceInput("direct", wanted=dict.fromkeys("PDC", 1.0))
    create_preference_set(
        NewPreferenceSet("a", "", FrontPicking(picking, versions(saved)[0])), by=olga.pk
    )
    assert services._delete_unprotected(Front.objects.filter(pk=saved.pk)) == 0
    assert Front.objects.get() == saved
