"""An agent's copy follows the change log, and ends where a fresh one begins."""

from threading import Event
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from apps.inventory.models import Change, ChangeKind, Server, ServerState
from apps.inventory.selectors import changes_since
from apps.inventory.services import NewChange, append_changes, import_cluster
from apps.scheduling import selectors
from apps.scheduling.core.localcopy import LocalCopy
from apps.scheduling.selectors import ClusterCopy, claimed_jobs, read_copy
from apps.scheduling.services import commit, release
from apps.workloads.core.targets import BestEffort
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import (
    ME,
    at_once,
    build,
    claimed,
    cluster_of,
    followed,
    proposal,
    put,
    state,
)


@pytest.fixture
def copy(db: None) -> LocalCopy:
    factories.cluster()
    return build("a", "b", "c")


def placed_on(copy: LocalCopy, *units: int, **asked: Any) -> Job:
    """A job that holds these units."""
    job = claimed()
    won, _ = commit([proposal(job, copy.topology, units, **asked)], agent=ME)
    assert list(won) == [job.id]
    return job


def test_a_copy_that_never_followed_has_nothing_to_show() -> None:
    with pytest.raises(RuntimeError, match="follow"):
        _ = ClusterCopy().copy


def test_claims_and_releases_are_followed(copy: LocalCopy) -> None:
    following = followed()
    first = placed_on(copy, 0, 1, 4)
    placed_on(copy, 2, unit_memory_bytes=3e9)
    release([first.id])
    placed_on(copy, 1, 9)
    assert state(following.follow()) == state(read_copy())
    free = following.copy.snapshot().unit_free
    assert [i for i, is_free in enumerate(free.tolist()) if not is_free] == [1, 2, 9]


def test_a_copy_read_anew_knows_what_every_job_takes_and_causes(copy: LocalCopy) -> None:
    following = followed()
    placed_on(copy, 0, 1, unit_memory_bytes=1e9)
    placed_on(copy, 2)
    snapshot = read_copy().snapshot()
    assert snapshot.server_free[0].tolist() == [10e9, 25e7, 25e10]
    assert snapshot.server_caused[0].tolist() == pytest.approx(
        [30.0 + 10.0 * i for i in range(10)]
    )
    assert state(following.follow()) == state(read_copy())


def test_closed_and_reopened_servers_are_followed(copy: LocalCopy) -> None:
    following = followed()
    put("a", ServerState.DRAINING)
    put("b", ServerState.CORDONED)
    put("c", ServerState.DOWN)
    assert following.follow().snapshot().server_open.tolist() == [False] * 3
    assert state(following.copy) == state(read_copy())
    put("b", ServerState.ACTIVE)
    assert following.follow().snapshot().server_open.tolist() == [False, True, False]
    assert state(following.copy) == state(read_copy())


def test_servers_that_were_imported_are_followed(copy: LocalCopy) -> None:
    following = followed()
    placed_on(copy, 0)
    import_cluster(cluster_of("a", "d", "e"))
    placed_on(read_copy(), 13)
    assert following.follow().topology.server_name == ("a", "b", "c", "d", "e")
    assert state(following.copy) == state(read_copy())


def test_a_unit_the_copy_never_heard_of_makes_it_read_anew(copy: LocalCopy) -> None:
    following = followed()
    factories.server("d", of=Server.objects.get(name="a").platform)  # nobody logged it
    placed_on(read_copy(), 12)
    assert following.follow().topology.server_name == ("a", "b", "c", "d")
    assert state(following.copy) == state(read_copy())


def test_a_log_longer_than_a_page_is_read_to_its_end(
    copy: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = followed()
    for unit in range(5):
        placed_on(copy, unit)
    monkeypatch.setattr(selectors, "PAGE", 2)
    assert state(following.follow()) == state(read_copy())


def test_reading_anew_amid_a_page_keeps_what_follows_it(
    copy: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = followed()
    monkeypatch.setattr(selectors, "PAGE", 2)
    placed_on(copy, 0)
    import_cluster(cluster_of("d"))
    placed_on(copy, 1)
    placed_on(copy, 2)
    assert state(following.follow()) == state(read_copy())


def test_an_oversubscribed_server_has_more_free(copy: LocalCopy) -> None:
    Server.objects.filter(name="a").update(oversubscription=1.5)
    assert read_copy().snapshot().server_free[0].tolist() == [24e9, 1.5e9, 1.5e12]


def test_an_empty_cluster_can_be_followed_until_servers_come(db: None) -> None:
    factories.cluster()
    following = followed()
    assert following.copy.snapshot().unit_free.size == 0
    copy = build("a")
    placed_on(copy, 3)
    assert following.follow().snapshot().unit_free.tolist() == [True, True, True, False]


def log_close(server: int) -> int:
    """Append one entry; returns its number."""
    change = NewChange(ChangeKind.CLOSE, server)
    return append_changes([change], at=timezone.now(), cluster_s=0.0)[0]


@pytest.mark.django_db(transaction=True)
def test_numbers_appear_in_the_order_of_commits() -> None:
    factories.cluster()
    build("a", "b")
    last = read_copy().sequence
    has_number, may_commit = Event(), Event()
    numbers: dict[str, int] = {}
    seen: list[list[int]] = []

    def slow() -> None:
        with transaction.atomic():
            numbers["slow"] = log_close(1)
            has_number.set()
            may_commit.wait(timeout=10)

    def fast() -> None:
        has_number.wait(timeout=10)
        with transaction.atomic():
            numbers["fast"] = log_close(2)

    def reader() -> None:
        has_number.wait(timeout=10)
        may_commit.wait(timeout=0.3)  # time for the fast one to overtake, were it possible
        seen.append([entry.seq for entry in changes_since(last)])
        may_commit.set()

    assert at_once(slow, fast, reader) == []
    assert seen == [[]]
    assert numbers["slow"] < numbers["fast"]
    assert [e.seq for e in changes_since(last)] == [numbers["slow"], numbers["fast"]]


@pytest.mark.django_db(transaction=True)
def test_a_copy_followed_amid_commits_and_releases_misses_none() -> None:
    factories.cluster()
    copy = build("a", "b")
    jobs = [[claimed() for _ in range(20)] for _ in range(2)]
    following = followed()
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


# ---- jobs as scheduling sees them ----


def test_a_claimed_job_is_read_with_all_it_asks_for(db: None) -> None:
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
        tries=6,
        submitted_s=100.0,
    )
    (seen,) = claimed_jobs([job.id], cluster_s=150.0, start_delay_s=15.0)
    ask = seen.ask
    assert (seen.id, seen.name, seen.project_id) == (job.id, job.name, job.project_id)
    assert (seen.application_id, seen.submitted_s, seen.tries) == (job.application_id, 100.0, 6)
    assert (ask.job, ask.target, ask.elapsed_s) == (str(job.id), BestEffort(), 65.0)
    assert (ask.input_bytes, ask.tasks, ask.units, ask.gang) == (5.0, 7, 3, False)
    assert (ask.unit_memory_bytes, ask.unit_network_bps, ask.unit_storage_bytes) == (1, 2, 4)
    assert (ask.constraints.platforms, ask.constraints.labels) == (("J",), {"zone": "1"})
    assert (ask.constraints.locality, ask.constraints.spread) == (None, "rack")


def test_urgent_jobs_come_first_then_older_ones(db: None) -> None:
    made = [factories.job(str(i), priority=p) for i, p in enumerate([0, 50, 0, -5])]
    seen = claimed_jobs([job.id for job in made], cluster_s=0.0, start_delay_s=0.0)
    assert [job.name for job in seen] == ["1", "0", "2", "3"]


def test_a_copy_nobody_followed_for_long_is_read_anew(
    copy: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = followed()
    placed_on(copy, 0, 1)
    Change.objects.all().delete()  # as if the log had been pruned meanwhile
    monkeypatch.setattr(selectors, "REREAD_S", -1.0)
    assert state(following.follow()) == state(read_copy())


def test_a_copy_followed_lately_is_not_read_anew(
    copy: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = followed()
    arrays = following.copy
    assert following.follow() is arrays
    monkeypatch.setattr(selectors, "REREAD_S", -1.0)
    assert following.follow() is not arrays
