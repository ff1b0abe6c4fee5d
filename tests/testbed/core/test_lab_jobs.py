"""Single jobs that gain or lose, paired by job and seed."""

import numpy as np
import pytest

from apps.testbed.core.lab_jobs import Direction, changed_jobs

BEFORE = np.array([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]], dtype=np.float32)
AFTER = np.array([[0.7, 0.5, 0.2, 0.6], [0.9, 0.502, 0.3, 0.3]], dtype=np.float32)


def test_the_largest_change_is_first() -> None:
    found = changed_jobs(BEFORE, AFTER, limit=10)
    assert [row.place for row in found.rows] == [0, 2, 3]
    first = found.rows[0]
    assert first.before == 0.5
    assert first.after == pytest.approx(0.8)
    assert first.change == pytest.approx(0.3)


def test_a_job_counts_only_if_it_changes_alike_in_every_seed() -> None:
    found = changed_jobs(BEFORE, AFTER, limit=10)
    assert (found.gained, found.lost, found.jobs, found.seeds) == (1, 1, 4, 2)
    mixed = next(row for row in found.rows if row.place == 3)
    assert (mixed.seeds_gained, mixed.seeds_lost) == (1, 1)


@pytest.mark.parametrize(
    ("direction", "places"),
    [(Direction.GAINS, [0]), (Direction.LOSSES, [2, 3]), (Direction.ALL, [0, 2, 3])],
    ids=str,
)
def test_a_direction_selects_the_jobs(direction: Direction, places: list[int]) -> None:
    found = changed_jobs(BEFORE, AFTER, direction=direction, limit=10)
    assert [row.place for row in found.rows] == places


def test_equal_changes_keep_the_order_of_the_trace() -> None:
    after = np.full_like(BEFORE, 0.75)
    rows = changed_jobs(BEFORE, after, limit=3).rows
    assert [row.place for row in rows] == [0, 1, 2]
