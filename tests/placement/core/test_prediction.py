"""What moves are predicted to do, told to people."""

from dataclasses import replace

import numpy as np
import pytest

from apps.placement.core import live
from apps.placement.core.instance import Communication
from apps.placement.core.prediction import apart_said, prediction, servers
from tests.placement.core.small_cluster import small_cluster

WEIGHTS = {"P": 1.0, "D": 1.0, "C": 1.0}


def moved(home: np.ndarray, container: int, to: int) -> np.ndarray:
    there = home.copy()
    there[container] = to
    return there


def test_nothing_that_moves_changes_nothing() -> None:
    cluster = small_cluster(1)
    told = prediction(cluster, cluster.home, WEIGHTS, seconds=0.0)
    assert told["before"] == told["after"]
    assert (told["moves"], told["jobs"], told["worst"]) == (0, [], None)


def test_a_job_whose_taz_gets_a_server_of_its_own_is_protected() -> None:
    cluster = small_cluster(2, is_plain=True)
    taz = np.arange(9) < 2
    cluster = replace(cluster, is_taz=taz, home=np.where(taz, 0, 1))
    told = prediction(cluster, moved(cluster.home, 0, 5), WEIGHTS, seconds=7.0)
    assert {job["name"]: job["gains"] for job in told["jobs"]} == {
        "job-0": "protected",
        "job-1": "protected",
    }
    assert (told["moves"], told["move_seconds"]) == (1, 7.0)


def test_a_job_that_is_torn_apart_loses_it() -> None:
    cluster = small_cluster(3, is_plain=True)
    cluster = replace(
        cluster,
        wish=np.full(len(cluster.job_id), Communication.NODE),
        home=np.zeros(9, dtype=np.int64),
        units=np.full(6, 9),
    )
    shared = int(np.flatnonzero(np.bincount(cluster.job) > 1)[0])
    container = int(np.flatnonzero(cluster.job == shared)[0])
    told = prediction(cluster, moved(cluster.home, container, 4), WEIGHTS, seconds=1.0)
    assert {job["name"]: job["loses"] for job in told["jobs"]}[f"job-{shared}"] == "gathered"


def test_the_worst_is_the_job_that_is_slowed_most() -> None:
    cluster = small_cluster(4)
    fast = np.flatnonzero(cluster.platform[cluster.home] == 0)
    slow = int(np.flatnonzero(cluster.platform == 1)[0])
    told = prediction(cluster, moved(cluster.home, int(fast[0]), slow), WEIGHTS, seconds=1.0)
    ratios = live.job_speed(cluster, moved(cluster.home, int(fast[0]), slow)) / live.job_speed(
        cluster, cluster.home
    )
    assert told["worst"]["ratio"] == pytest.approx(ratios.min())
    assert told["worst"]["loses"] == "full speed"


@pytest.mark.parametrize(("wish", "units", "without"), [
    (Communication.NODE, [3, 2, 2, 4], 0), (Communication.NODE, [2, 2, 2, 3], 1),
    (Communication.RACK, [3, 1, 2, 1], 0), (Communication.RACK, [2, 1, 2, 2], 1),
])  # fmt: skip
def test_of_jobs_apart_it_is_told_which_have_no_place_to_come_together(
    wish: Communication, units: list[int], without: int
) -> None:
    cluster = replace(  # one job of 3, on servers 0 and 2, in racks 0 and 1; 1 is slow, 3 full
        small_cluster(1, servers=4, containers=3, is_plain=True),
        units=np.array(units),
        held_units=np.array([1, 0, 2, units[3]]),
        home=np.array([0, 2, 2]),
        rack=np.array([0, 0, 1, 1]),
        platform=np.array([0, 1, 0, 0]),
        job=np.zeros(3, dtype=np.int64),
        job_id=("j0",),
        job_name=("job-0",),
        wish=np.array([wish]),
        is_allowed=np.ones((1, 4), dtype=np.bool_),
    )
    told = prediction(cluster, cluster.home, WEIGHTS, seconds=0.0)
    assert (told["apart"]["jobs"], told["apart"]["without_room"]) == (1, without)
    assert told["apart"]["meaning"].startswith("1 job stays apart: ")


@pytest.mark.parametrize(
    ("jobs", "without_room", "said"),
    [
        (0, 0, ""),
        (1, 1, "1 job stays apart: no server (or rack) that suits it has room for all of it."),
        (
            2, 0,
            "2 jobs stay apart: bringing them together would cost more than it gains, or slow"
            " somebody.",
        ),
        (
            1_900, 1_400,
            "1,900 jobs stay apart: for 1,400 of them no server (or rack) that suits them has room"
            " for all of one; bringing the others together would cost more than it gains, or slow"
            " somebody.",
        ),
        (
            2, 1,
            "2 jobs stay apart: for 1 of them no server (or rack) that suits them has room for"
            " all of one; bringing the other together would cost more than it gains, or slow"
            " somebody.",
        ),
    ],
)  # fmt: skip
def test_it_is_said_why_jobs_stay_apart(jobs: int, without_room: int, said: str) -> None:
    assert apart_said(jobs, without_room) == said


def test_servers_show_what_they_hold_before_and_after_with_what_is_not_ours() -> None:
    cluster = small_cluster(5, is_plain=True)
    cluster = replace(cluster, held_units=cluster.held_units + 1, units=cluster.units + 9)
    to = int((cluster.home[0] + 1) % 6)
    columns = servers(cluster, moved(cluster.home, 0, to))
    assert columns["is_target"] == [server == to for server in range(6)]
    lent = np.array(columns["before"]) * cluster.units
    np.testing.assert_allclose(lent, cluster.held_units, atol=0.01)
    assert columns["after"][to] == pytest.approx(
        (cluster.held_units[to] + 1) / cluster.units[to], abs=1e-4
    )
