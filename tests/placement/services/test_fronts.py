"""Searching fronts in a worker: versions, progress, stopping, dying and going on."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import User
from apps.common.core.errors import InvalidInputError
from apps.inventory.models import Server
from apps.operations.core.states import OperationStatus
from apps.operations.models import Event, Operation
from apps.operations.services import cancel_operation, release_expired_operations
from apps.placement.core.derivation import Picking
from apps.placement.core.examples import draw
from apps.placement.core.front import hypervolume, losses, thin
from apps.placement.core.instance import Instance
from apps.placement.core.mix import mix_of
from apps.placement.core.objectives import evaluate
from apps.placement.models import ContainerClass, Front, FrontVersion
from apps.placement.selectors import fronts as selectors
from apps.placement.selectors.drift import running_mix
from apps.placement.selectors.preferences import Picked
from apps.placement.services import front_versions
from apps.placement.services import fronts as services
from apps.placement.services.fronts import (
    NewFront,
    Workload,
    begin_front,
    prune_fronts,
    prune_versions,
    search_waiting,
)
from apps.placement.services.preferences import NewSet, keep_set
from apps.placement.tasks import search_fronts, star_by_worker
from apps.workloads.models import Job
from tests import factories
from tests.placement.made import PLAIN, REAL, asked, found, nothing_runs, ticking
from tests.races import at_once


@pytest.fixture
def olga(db: None) -> User:
    return factories.user("olga")


def versions(front: Front) -> list[FrontVersion]:
    return list(front.versions.order_by("number"))


def kinds(front: Front) -> list[str]:
    events = Event.objects.filter(topic="fronts", subject=str(front.pk)).order_by("seq")
    return [event.kind for event in events]


def test_a_front_gets_better_version_by_version(olga: User) -> None:
    front = found(olga)
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


def test_where_counts_decide_one_exact_version_is_written_at_once(olga: User) -> None:
    (row,) = versions(found(olga, draw(PLAIN, 3)))
    assert row.is_exact
    assert row.generations == 0


def test_points_are_what_their_placements_are_worth(olga: User) -> None:
    front = found(olga)
    version = versions(front)[-1]
    points, placed = selectors.points_of(version), selectors.assignments_of(version.pk)
    instance = selectors.instance_of(front.pk)
    judged = [evaluate(instance, each) for each in placed]
    assert points.raw == pytest.approx(np.array([[e.raw[o] for o in "PDC"] for e in judged]))
    values = np.array([[e.normalised[o] for o in "PDC"] for e in judged])
    assert points.normalised == pytest.approx(values)
    assert version.shown == version.points == len(placed)
    assert hypervolume(losses(points.normalised)) == pytest.approx(version.hypervolume)


def test_thinning_takes_what_stands_for_all_and_nests(olga: User) -> None:
    points = selectors.points_of(versions(found(olga))[-1])
    few, more = points.among(5), points.among(12)
    assert (few.size, more.size) == (5, 12)
    assert set(few.tolist()) < set(more.tolist())
    assert few.tolist() == thin(losses(points.normalised), 5).tolist()
    assert points.among(None).size == len(points.raw)


def test_the_instance_is_kept_as_it_was_handed_in(olga: User) -> None:
    given = draw(REAL, 1)
    kept = selectors.instance_of(found(olga, given).pk)
    assert (kept.node_ids, kept.container_ids) == (given.node_ids, given.container_ids)
    assert kept.intensity.tolist() == given.intensity.tolist()
    assert kept.wish[kept.job].tolist() == given.wish[given.job].tolist()


def test_a_front_says_what_stands_beside_it(olga: User) -> None:
    front = found(olga, draw(REAL, 1))
    assert [anchor["name"] for anchor in front.anchors] == ["SlotRR", "NodeRR"]
    assert front.scales["P"] == draw(REAL, 1).peak_watts.sum()
    runs = draw(PLAIN.__class__(containers=20, nodes=20, nodes_per_rack=10, occupied=0.5), 3)
    assert [a["name"] for a in found(olga, runs).anchors] == ["now", "SlotRR", "NodeRR"]


def test_the_history_tells_how_it_got_better(olga: User) -> None:
    front = found(olga)
    volumes = [look["hypervolume"] for look in front.history]
    assert len(volumes) > 5
    assert volumes == sorted(volumes)
    assert front.history[-1]["hypervolume"] == versions(front)[-1].hypervolume


def test_a_long_history_is_thinned(olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_versions, "_MOST_LOOKS", 10)
    front = found(olga)
    assert 5 <= len(front.history) <= 10
    seconds = [look["seconds"] for look in front.history]
    assert seconds == sorted(seconds)
    assert front.history[-1]["hypervolume"] == versions(front)[-1].hypervolume


def test_numbers_go_up(olga: User) -> None:
    assert [str(asked(olga)), str(asked(olga))] == ["f-0001", "f-0002"]


def test_one_front_is_searched_at_a_time_the_oldest_first(olga: User) -> None:
    first, second = asked(olga), asked(olga)
    Operation.objects.filter(pk=first.operation_id).update(status="running")
    assert search_waiting(nothing_runs, clock=ticking()) is None
    Operation.objects.filter(pk=first.operation_id).update(status="pending")
    assert search_waiting(nothing_runs, clock=ticking()) == first.pk
    assert search_waiting(nothing_runs, clock=ticking()) == second.pk
    assert search_waiting(nothing_runs, clock=ticking()) is None


def during(monkeypatch: pytest.MonkeyPatch, number: int, act: Any) -> None:
    """Do something right after the version of that number was written."""
    write = front_versions.Keeper._write

    def writing(self: front_versions.Keeper, front: Any) -> FrontVersion:
        row = write(self, front)
        if row.number == number:
            act(self._front)
        return row

    monkeypatch.setattr(front_versions.Keeper, "_write", writing)


def test_a_stopped_search_keeps_what_it_has_found(
    olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    during(monkeypatch, 1, services.stop_front)
    front = found(olga, budget_s=50.0)
    assert front.operation.status == OperationStatus.CANCELLED
    assert 1 <= len(versions(front)) <= 2
    assert versions(front)[-1].seconds < 3.0
    assert kinds(front)[-1] == "front.finished"


def test_a_front_nobody_has_begun_is_stopped_at_once(olga: User) -> None:
    front = asked(olga)
    services.stop_front(front)
    assert Operation.objects.get(pk=front.operation_id).status == OperationStatus.CANCELLED
    assert kinds(front) == ["front.created", "front.finished"]
    assert search_waiting(nothing_runs, clock=ticking()) is None


def test_a_search_whose_worker_died_goes_on_with_what_it_had(
    olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PowerCutError(BaseException):
        pass

    def die(_: Front) -> None:
        raise PowerCutError

    front = asked(olga, budget_s=20.0)
    with monkeypatch.context() as cut:
        during(cut, 3, die)
        with pytest.raises(PowerCutError):
            search_waiting(nothing_runs, clock=ticking())
    before = versions(front)[-1]
    assert before.number == 3
    assert search_waiting(nothing_runs, clock=ticking()) is None  # the lease still runs
    Operation.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    release_expired_operations()
    assert search_waiting(nothing_runs, clock=ticking()) == front.pk
    front.refresh_from_db()
    rows = versions(front)
    assert front.operation.status == OperationStatus.SUCCEEDED
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert rows[3].hypervolume >= before.hypervolume
    assert rows[-1].seconds > before.seconds
    assert [look["seconds"] for look in front.history] == sorted(
        look["seconds"] for look in front.history
    )


def test_a_search_that_was_taken_over_writes_nothing_more(
    olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_over(front: Front) -> None:
        row = Operation.objects.get(pk=front.operation_id)
        row.arguments["attempt"] = 2
        row.save()

    during(monkeypatch, 1, take_over)
    front = found(olga)
    assert len(versions(front)) == 1
    assert front.operation.status == OperationStatus.RUNNING


def test_a_search_that_kills_its_worker_is_given_up(olga: User) -> None:
    front = asked(olga)
    Operation.objects.filter(pk=front.operation_id).update(arguments={"attempt": 3})
    assert search_waiting(nothing_runs, clock=ticking()) is None
    front.refresh_from_db()
    assert front.operation.status == OperationStatus.FAILED
    assert "died 3 times" in (front.operation.problem or {})["detail"]
    assert kinds(front)[-1] == "front.finished"


def test_a_front_of_the_cluster_reads_it_once(olga: User) -> None:
    instance = draw(PLAIN, 3)
    moments: list[float | None] = []

    def read(at_s: float | None) -> Workload:
        moments.append(at_s)
        return Workload(instance, 7200.0)

    front = begin_front(NewFront(budget_s=1.0, seed=0), by=olga.pk)
    assert (front.source, front.instance) == ("cluster", None)
    search_waiting(read, clock=ticking())
    front.refresh_from_db()
    assert moments == [None]
    assert (front.cluster_s, front.containers, front.nodes) == (7200.0, 20, 20)
    assert front.mix == mix_of(instance)
    assert versions(front)


def empty() -> Instance:
    return draw(PLAIN.__class__(containers=0, nodes=4), 0)


def test_a_cluster_on_which_nothing_runs_has_no_front(olga: User) -> None:
    front = begin_front(NewFront(budget_s=1.0, seed=0), by=olga.pk)
    search_waiting(lambda _: Workload(empty(), 1.0), clock=ticking())
    front.refresh_from_db()
    assert front.operation.status == OperationStatus.FAILED
    assert (front.operation.problem or {})["detail"].startswith("Nothing runs on the cluster")


def test_a_search_that_breaks_fails_and_is_logged(
    olga: User, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: float | None) -> Workload:
        raise ZeroDivisionError

    front = begin_front(NewFront(budget_s=1.0, seed=0), by=olga.pk)
    search_waiting(broken, clock=ticking())
    front.refresh_from_db()
    assert front.operation.status == OperationStatus.FAILED
    assert "f-0001" in caplog.text


def test_cancelling_its_operation_stops_a_front(
    olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    during(monkeypatch, 1, lambda front: cancel_operation(front.operation_id))
    assert found(olga, budget_s=50.0).operation.status == OperationStatus.CANCELLED


def test_versions_of_a_long_search_are_farther_and_farther_apart(olga: User) -> None:
    front = asked(olga, budget_s=400.0)
    search_waiting(nothing_runs, clock=ticking(0.2))
    gaps = np.diff([row.seconds for row in versions(front)])
    assert gaps.max() >= 0.05 * 200.0
    assert len(gaps) < 80


def test_versions_on_the_way_are_forgotten_after_a_day(olga: User) -> None:
    front, other = found(olga), found(olga)
    kept_for_picks = versions(front)[0]
    picking = Picking("direct", wanted=dict.fromkeys("PDC", 1.0))
    keep_set(NewSet("a", "", Picked(picking, kept_for_picks)), by=olga.pk)
    last = versions(front)[-1]
    assert prune_versions() == 0
    yesterday = timezone.now() - timedelta(days=1, seconds=1)
    Operation.objects.filter(pk=front.operation_id).update(finished_at=yesterday)
    assert prune_versions() == last.number - 2
    assert [row.number for row in versions(front)] == [1, last.number]
    assert len(versions(other)) > 1
    assert prune_versions() == 0


@pytest.mark.django_db(transaction=True)
def test_of_two_workers_one_takes_a_front_up() -> None:
    front = asked(factories.user("olga"))
    taken = at_once(4, services._claimed)
    assert [one.pk for one in taken if one is not None] == [front.pk]


@pytest.mark.django_db(transaction=True)
def test_fronts_asked_for_at_once_have_different_numbers() -> None:
    olga = factories.user("olga")
    made = at_once(4, lambda: asked(olga).number)
    assert sorted(made) == [1, 2, 3, 4]


def test_a_moment_that_is_yet_to_come_is_refused(olga: User) -> None:
    factories.cluster(seen_cluster_s=500.0)
    begin_front(NewFront(budget_s=1.0, seed=0, cluster_s=500.0), by=olga.pk)
    with pytest.raises(InvalidInputError, match="/cluster_seconds: must not be later than now"):
        begin_front(NewFront(budget_s=1.0, seed=0, cluster_s=501.0), by=olga.pk)


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


def test_a_worker_searches_a_front_of_what_runs(olga: User, running: list[Job]) -> None:
    factories.allocation(factories.job(state="starting"), Server.objects.all()[0], cores=1)
    front = begin_front(NewFront(budget_s=0.5, seed=0), by=olga.pk)
    assert search_fronts() == str(front.pk)
    front.refresh_from_db()
    assert front.operation.status == OperationStatus.SUCCEEDED, front.operation.problem
    assert (front.containers, front.nodes, front.cluster_s) == (24, 4, 7200.0)
    assert [anchor["name"] for anchor in front.anchors] == ["now", "SlotRR", "NodeRR"]
    last = versions(front)[-1]
    assert set(selectors.points_of(last).worst_job) <= {str(job.pk) for job in running} | {None}
    assert front.mix == running_mix()
    assert search_fronts() is None


def test_the_check_of_a_front_of_what_runs_is_its_own_workload(
    olga: User, running: list[Job]
) -> None:
    front = begin_front(NewFront(budget_s=0.5, seed=0), by=olga.pk)
    search_fronts()
    star = star_by_worker(front.pk, {"P": 1.0, "D": 0.5, "C": 0.2})
    least = selectors.points_of(versions(front)[-1]).normalised @ (1.0, -0.5, 0.2)
    assert least.min() + 1e-9 >= star.F


def test_fronts_without_a_preference_set_are_forgotten_after_a_month(
    olga: User, settings: Settings
) -> None:
    old, saved, newest = found(olga), found(olga), found(olga)
    picking = Picking("direct", wanted=dict.fromkeys("PDC", 1.0))
    keep_set(NewSet("a", "", Picked(picking, versions(saved)[0])), by=olga.pk)
    assert prune_fronts() == 0
    long_ago = timezone.now() - timedelta(days=settings.BERTH_FRONT_DAYS, seconds=1)
    for front in (old, saved, newest):
        Operation.objects.filter(pk=front.operation_id).update(finished_at=long_ago)
    assert prune_fronts() == 1
    assert set(Front.objects.all()) == {saved, newest}
    assert not FrontVersion.objects.filter(front_id=old.pk).exists()


def test_a_front_a_set_was_saved_of_meanwhile_stays(olga: User) -> None:
    saved = found(olga)
    picking = Picking("direct", wanted=dict.fromkeys("PDC", 1.0))
    keep_set(NewSet("a", "", Picked(picking, versions(saved)[0])), by=olga.pk)
    assert services._forget(Front.objects.filter(pk=saved.pk)) == 0
    assert Front.objects.get() == saved
