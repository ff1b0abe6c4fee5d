"""Predicted effect of migrations, as JSON and sentences."""

from dataclasses import replace

import numpy as np
import pytest

from apps.placement.core.problem.instance import Communication
from apps.placement.core.rebalancing import cluster as live
from apps.placement.core.rebalancing.prediction import prediction, server_columns, split_sentence
from tests.placement.core.small_cluster import small_cluster

WEIGHTS = {"P": 1.0, "D": 1.0, "C": 1.0}


def moved(assignment: np.ndarray, container: int, to: int) -> np.ndarray:
    there = assignment.copy()
    there[container] = to
    return there


def test_no_migrations_change_nothing() -> None:
    cluster = small_cluster(1)
    effect = prediction(cluster, cluster.assignment, WEIGHTS, seconds=0.0)
    assert effect["before"] == effect["after"]
    assert (effect["moves"], effect["jobs"], effect["worst"]) == (0, [], None)


def test_separating_two_tazes_protects_both_jobs() -> None:
    cluster = small_cluster(2, is_plain=True)
    taz = np.arange(9) < 2
    cluster = replace(cluster, is_taz=taz, assignment=np.where(taz, 0, 1))
    effect = prediction(cluster, moved(cluster.assignment, 0, 5), WEIGHTS, seconds=7.0)
    assert {job["name"]: job["gains"] for job in effect["jobs"]} == {
        "job-0": "protected",
        "job-1": "protected",
    }
    assert (effect["moves"], effect["move_seconds"]) == (1, 7.0)


def test_a_job_that_is_split_loses_its_gathering() -> None:
    cluster = small_cluster(3, is_plain=True)
    cluster = replace(
        cluster,
        communication=np.full(len(cluster.job_id), Communication.NODE),
        assignment=np.zeros(9, dtype=np.int64),
        units=np.full(6, 9),
    )
    shared = int(np.flatnonzero(np.bincount(cluster.job) > 1)[0])
    container = int(np.flatnonzero(cluster.job == shared)[0])
    effect = prediction(cluster, moved(cluster.assignment, container, 4), WEIGHTS, seconds=1.0)
    assert {job["name"]: job["loses"] for job in effect["jobs"]}[f"job-{shared}"] == "gathered"


def test_the_worst_job_has_the_lowest_speed_ratio() -> None:
    cluster = small_cluster(4)
    fast = np.flatnonzero(cluster.platform[cluster.assignment] == 0)
    slow = int(np.flatnonzero(cluster.platform == 1)[0])
    effect = prediction(
        cluster, moved(cluster.assignment, int(fast[0]), slow), WEIGHTS, seconds=1.0
    )
    ratios = live.job_speed(
        cluster, moved(cluster.assignment, int(fast[0]), slow)
    ) / live.job_speed(cluster, cluster.assignment)
    assert effect["worst"]["ratio"] == pytest.approx(ratios.min())
    assert effect["worst"]["loses"] == "full speed"


@pytest.mark.parametrize(("communication", "units", "without"), [
    (Communication.NODE, [3, 2, 2, 4], 0), (Communication.NODE, [2, 2, 2, 3], 1),
    (Communication.RACK, [3, 1, 2, 1], 0), (Communication.RACK, [2, 1, 2, 2], 1),
])  # fmt: skip
def test_split_jobs_without_a_suitable_place_are_counted(
    communication: Communication, units: list[int], without: int
) -> None:
    cluster = replace(  # one job of 3, on servers 0 and 2, in racks 0 and 1; 1 is slow, 3 full
        small_cluster(1, servers=4, containers=3, is_plain=True),
        units=np.array(units),
        held_units=np.array([1, 0, 2, units[3]]),
        assignment=np.array([0, 2, 2]),
        rack=np.array([0, 0, 1, 1]),
        platform=np.array([0, 1, 0, 0]),
        job=np.zeros(3, dtype=np.int64),
        job_id=("j0",),
        job_name=("job-0",),
        communication=np.array([communication]),
        is_allowed=np.ones((1, 4), dtype=np.bool_),
    )
    effect = prediction(cluster, cluster.assignment, WEIGHTS, seconds=0.0)
    assert (effect["apart"]["jobs"], effect["apart"]["without_room"]) == (1, without)
    assert effect["apart"]["meaning"].startswith("1 job stays split: ")


@pytest.mark.parametrize(
    ("jobs", "without_room", "message"),
    [
        (0, 0, ""),
        (1, 1, "1 job stays split: no suitable server (or rack) has enough free units."),
        (
            2, 0,
            "2 jobs stay split: gathering them would cost more than it gains or slow down other"
            " jobs.",
        ),
        (
            1_900, 1_400,
            "1,900 jobs stay split: for 1,400, no suitable server (or rack) has enough free units;"
            " gathering the others would cost more than it gains or slow down other jobs.",
        ),
        (
            2, 1,
            "2 jobs stay split: for 1, no suitable server (or rack) has enough free units;"
            " gathering the other would cost more than it gains or slow down other jobs.",
        ),
    ],
)  # fmt: skip
def test_the_reason_for_split_jobs_is_explained(
    jobs: int, without_room: int, message: str
) -> None:
    assert split_sentence(jobs, without_room) == message


def test_server_loads_include_units_of_other_jobs() -> None:
    cluster = small_cluster(5, is_plain=True)
    cluster = replace(cluster, held_units=cluster.held_units + 1, units=cluster.units + 9)
    to = int((cluster.assignment[0] + 1) % 6)
    columns = server_columns(cluster, moved(cluster.assignment, 0, to))
    assert columns["is_target"] == [server == to for server in range(6)]
    lent = np.array(columns["before"]) * cluster.units
    np.testing.assert_allclose(lent, cluster.held_units, atol=0.01)
    assert columns["after"][to] == pytest.approx(
        (cluster.held_units[to] + 1) / cluster.units[to], abs=1e-4
    )
