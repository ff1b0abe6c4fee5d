"""How long a front stays valid."""

import numpy as np
import pytest

from apps.placement.core.front.validity import (
    ContainerSpan,
    change_by_lag,
    mix_at,
    seconds_left,
)
from apps.placement.core.problem.instance import Communication


def span(job: str, from_s: float, until_s: float, *, is_taz: bool = False) -> ContainerSpan:
    return ContainerSpan(job, is_taz, Communication.CLUSTER, from_s, until_s)


def test_a_container_counts_from_its_start_to_before_its_end() -> None:
    spans = [span("a", 0.0, 10.0), span("b", 5.0, 20.0, is_taz=True)]
    assert mix_at(spans, 0.0) == {"turtle cluster 1": 1}
    assert mix_at(spans, 5.0) == {"turtle cluster 1": 1, "taz cluster 1": 1}
    assert mix_at(spans, 10.0) == {"taz cluster 1": 1}
    assert mix_at(spans, 20.0) == {}


def test_the_size_of_a_job_is_that_at_the_time() -> None:
    spans = [span("a", 0.0, 10.0), span("a", 0.0, 20.0)]
    assert mix_at(spans, 0.0) == {"turtle cluster 2": 2}
    assert mix_at(spans, 15.0) == {"turtle cluster 1": 1}


def test_the_change_over_a_lag_is_the_mean_over_all_pairs() -> None:
    mixes = [{"a": 10}, {"a": 9, "b": 1}, {"a": 7, "b": 3}]
    # one step: 0.1 and 0.2; two steps: 0.3
    assert change_by_lag(mixes).tolist() == pytest.approx([0.0, 0.15, 0.3])


def test_a_mix_that_returns_does_not_reduce_the_change() -> None:
    mixes = [{"a": 10}, {"a": 8, "b": 2}, {"a": 10}]
    assert change_by_lag(mixes).tolist() == pytest.approx([0.0, 0.2, 0.2])


@pytest.mark.parametrize(
    ("share", "limit", "expected"),
    [
        (0.0, 0.1, 400.0),  # 0.1 is reached between one step and two
        (0.05, 0.1, 200.0),
        (0.075, 0.1, 100.0),
        (0.1, 0.1, 0.0),
        (0.11, 0.1, 0.0),  # outdated already
        (0.0, 0.5, None),  # never within the window
    ],
)
def test_the_time_left_is_read_from_the_measured_change(
    share: float, limit: float, expected: float | None
) -> None:
    change = np.array([0.0, 0.075, 0.15, 0.15])
    left = seconds_left(change, 300.0, share=share, limit=limit)
    assert left == (None if expected is None else pytest.approx(expected))


def test_without_history_the_time_left_is_unknown() -> None:
    assert seconds_left(np.zeros(0), 300.0, share=0.02, limit=0.1) is None
