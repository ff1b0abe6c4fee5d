"""Copies of the cluster that follow the change log equal new ones."""

from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from apps.inventory import selectors as inventory
from apps.inventory.core.snapshot import Topology
from apps.inventory.models import Server, ServerState
from apps.inventory.services import import_cluster, prune_changes, set_server_state
from apps.scheduling import selectors
from apps.scheduling.core.cluster.copy import ClusterCopy
from apps.scheduling.selectors import ClusterFollower, claimed_jobs, read_copy
from apps.scheduling.services import commit, release
from apps.workloads.core.targets import BestEffort
from apps.workloads.models import Job
from tests import factories
from tests.races import meanwhile
from tests.scheduling.world import (
    ME,
    at_once,
    build,
    claimed,
    cluster_of,
    followed_copy,
    proposal,
    put,
    state,
)


@pytest.fixture
def copy(db: None) -> ClusterCopy:
    factories.cluster()
    return build("a", "b", "c")


def placed_on(copy: ClusterCopy, *units: int, **fields: Any) -> Job:
    """Return a job that holds units."""
    job = claimed()
    won, _ = commit([proposal(job, copy.topology, units, **fields)], agent=ME)
    assert list(won) == [job.id]
    return job


def test_a_copy_that_was_never_read_raises_an_error() -> None:
    with pytest.raises(RuntimeError, match="follow"):
        _ = ClusterFollower().copy


def test_claims_and_releases_are_followed(copy: ClusterCopy) -> None:
    following = followed_copy()
    first = placed_on(copy, 0, 1, 4)
    placed_on(copy, 2, unit_memory_bytes=3e9)
    release([first.id])
    placed_on(copy, 1, 9)
    assert state(following.follow()) == state(read_copy())
    free = following.copy.snapshot().unit_free
    assert [i for i, is_free in enumerate(free.tolist()) if not is_free] == [1, 2, 9]


def test_a_new_copy_includes_the_resources_and_interference_of_every_job(
    copy: ClusterCopy,
) -> None:
    following = followed_copy()
    placed_on(copy, 0, 1, unit_memory_bytes=1e9)
    placed_on(copy, 2)
    snapshot = read_copy().snapshot()
    assert snapshot.server_free[0].tolist() == [10e9, 25e7, 25e10]
    assert snapshot.server_caused[0].tolist() == pytest.approx(
        [30.0 + 10.0 * i for i in range(10)]
    )
    assert (snapshot.server_exposure[0] < 0.0).all()  # by what the jobs tolerate
    assert state(following.follow()) == state(read_copy())


def test_closed_and_reopened_servers_are_followed(copy: ClusterCopy) -> None:
    following = followed_copy()
    put("a", ServerState.DRAINING)
    put("b", ServerState.CORDONED)
    put("c", ServerState.DOWN)
    assert following.follow().snapshot().server_open.tolist() == [False] * 3
    assert state(following.copy) == state(read_copy())
    put("b", ServerState.ACTIVE)
    assert following.follow().snapshot().server_open.tolist() == [False, True, False]
    assert state(following.copy) == state(read_copy())


def test_servers_that_were_imported_are_followed(copy: ClusterCopy) -> None:
    following = followed_copy()
    placed_on(copy, 0)
    import_cluster(cluster_of("a", "d", "e"))
    placed_on(read_copy(), 13)
    assert following.follow().topology.server_name == ("a", "b", "c", "d", "e")
    assert state(following.copy) == state(read_copy())


def test_an_unknown_unit_makes_the_copy_be_read_again(copy: ClusterCopy) -> None:
    following = followed_copy()
    factories.server("d", of=Server.objects.get(name="a").platform)  # not in the change log
    placed_on(read_copy(), 12)
    assert following.follow().topology.server_name == ("a", "b", "c", "d")
    assert state(following.copy) == state(read_copy())


def test_a_log_longer_than_a_page_is_read_to_its_end(
    copy: ClusterCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = followed_copy()
    for unit in range(5):
        placed_on(copy, unit)
    monkeypatch.setattr(selectors, "PAGE", 2)
    assert state(following.follow()) == state(read_copy())


def test_reading_the_copy_again_within_a_page_keeps_the_entries_after_it(
    copy: ClusterCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = followed_copy()
    monkeypatch.setattr(selectors, "PAGE", 2)
    placed_on(copy, 0)
    import_cluster(cluster_of("d"))
    placed_on(copy, 1)
    placed_on(copy, 2)
    assert state(following.follow()) == state(read_copy())


def test_an_oversubscribed_server_has_more_free(copy: ClusterCopy) -> None:
    Server.objects.filter(name="a").update(oversubscription=1.5)
    assert read_copy().snapshot().server_free[0].tolist() == [24e9, 1.5e9, 1.5e12]


def test_an_empty_cluster_can_be_followed_until_servers_are_added(db: None) -> None:
    factories.cluster()
    following = followed_copy()
    assert following.copy.snapshot().unit_free.size == 0
    copy = build("a")
    placed_on(copy, 3)
    assert following.follow().snapshot().unit_free.tolist() == [True, True, True, False]


@pytest.mark.django_db(transaction=True)
def test_a_copy_read_during_an_open_transaction_misses_no_entry() -> None:
    """The higher number commits first; the copy must still apply the lower one."""
    factories.cluster()
    first, second = build("a", "b").topology.server_id.tolist()
    following = ClusterFollower()
    with transaction.atomic():
        set_server_state(server_id=first, state=ServerState.CORDONED)
        meanwhile(lambda: set_server_state(server_id=second, state=ServerState.CORDONED))
        early = meanwhile(following.follow).frozen()
    assert early.server_open.tolist() == [True, False]
    assert following.follow().snapshot().server_open.tolist() == [False, False]


@pytest.mark.django_db(transaction=True)
def test_a_copy_shows_one_moment_while_servers_are_added_and_filled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    factories.cluster()
    build("a", "b")
    topology = inventory.topology

    def grow() -> None:
        placed_on(build("c", "d"), 0, 12)

    def topology_after_the_servers() -> Topology:
        monkeypatch.setattr(inventory, "topology", topology)
        meanwhile(grow)
        return topology()

    monkeypatch.setattr(inventory, "topology", topology_after_the_servers)
    early = read_copy()
    assert early.topology.server_name == ("a", "b")
    assert early.snapshot().unit_free.all()
    assert read_copy().topology.server_name == ("a", "b", "c", "d")


@pytest.mark.django_db(transaction=True)
def test_a_copy_followed_during_commits_and_releases_misses_none() -> None:
    factories.cluster()
    copy = build("a", "b")
    jobs = [[claimed() for _ in range(20)] for _ in range(2)]
    following = followed_copy()
    is_over = Event()

    def churn(side: int) -> None:
        for job in jobs[side]:
            commit([proposal(job, copy.topology, [4 * side, 4 * side + 1])], agent=ME)
            with transaction.atomic():
                release([job.id])

    def both() -> None:
        assert at_once(lambda: churn(0), lambda: churn(1)) == []
        is_over.set()

    def follow() -> None:
        while not is_over.is_set():
            following.follow()

    placed_on(copy, 3, 7)
    assert at_once(both, follow) == []
    assert state(following.follow()) == state(read_copy())
    assert following.copy.snapshot().unit_free.sum() == 6


# ---- claimed jobs ----


def test_a_claimed_job_is_read_with_its_specification(db: None) -> None:
    job = factories.job(
        target={"kind": "best_effort"},
        constraints={"platforms": ["J"], "labels": {"zone": "1"}, "spread": "rack"},
        input_bytes=5,
        tasks_total=7,
        units_requested=3,
        gang=False,
        unit_memory_bytes=1,
        unit_network_bps=2,
        unit_storage_bytes=4,
        duration_s=30.0,
        submitted_s=100.0,
    )
    (claimed,) = claimed_jobs([job.id], cluster_s=150.0, start_delay_s=15.0)
    assert (claimed.id, claimed.name, claimed.project_id) == (job.id, job.name, job.project_id)
    assert claimed.application_id == job.application_id
    assert (claimed.submitted_s, claimed.elapsed_s) == (100.0, 65.0)
    spec = claimed.spec
    assert (spec.application, spec.kind) == (job.application.name, job.application.kind)
    assert (spec.target, spec.duration_s) == (BestEffort(), 30.0)
    assert (spec.input_bytes, spec.tasks, spec.units, spec.gang) == (5, 7, 3, False)
    assert (spec.unit_memory_bytes, spec.unit_network_bps, spec.unit_storage_bytes) == (1, 2, 4)
    assert (spec.constraints.platforms, spec.constraints.labels) == (("J",), {"zone": "1"})
    assert (spec.constraints.locality, spec.constraints.spread) == (None, "rack")


def test_jobs_are_ordered_by_priority_then_age(db: None) -> None:
    jobs = [factories.job(str(i), priority=p) for i, p in enumerate([0, 50, 0, -5])]
    claims = claimed_jobs([job.id for job in jobs], cluster_s=0.0, start_delay_s=0.0)
    assert [job.name for job in claims] == ["1", "0", "2", "3"]


def test_a_copy_that_has_not_seen_deleted_changes_is_read_again(copy: ClusterCopy) -> None:
    stale = followed_copy()
    placed_on(copy, 0, 1)
    placed_on(copy, 2)
    recent = followed_copy()
    arrays = recent.copy
    placed_on(copy, 3)
    assert prune_changes(before=timezone.now() + timedelta(days=1)) == 2
    placed_on(copy, 4)
    assert state(stale.follow()) == state(read_copy())
    assert state(recent.follow()) == state(read_copy())
    assert recent.copy is arrays
