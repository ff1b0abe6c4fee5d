"""Classification of containers as taz or turtle from telemetry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.inventory.core.snapshot import Floats
from apps.placement.core.monitoring.classes import (
    AT_THRESHOLD,
    HYSTERESIS,
    SMOOTHING_S,
    ContainerClasses,
    LocalityLimits,
    communication,
    fit_threshold,
    intensities,
)
from apps.placement.core.problem.instance import Communication

THRESHOLDS = np.array([[100.0, 0.2, 0.4]])
LINKS = LocalityLimits(node_slots=2, rack_slots=8, limit=1e6)
NODE, RACK, CLUSTER = Communication.NODE, Communication.RACK, Communication.CLUSTER


def floats(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


def test_a_threshold_lies_between_those_that_lose_and_those_that_do_not() -> None:
    fit = fit_threshold(floats(5, 1, 9, 3), floats(0.3, 0.0, 0.5, 0.05))
    assert fit == (4.0, 1.0, 4)


def test_one_odd_reading_does_not_move_the_threshold_far() -> None:
    metric = np.arange(1.0, 21.0)
    lost = np.where(metric > 12, 0.3, 0.0)
    lost[1] = 0.4
    fit = fit_threshold(metric, lost)
    assert fit.value == 12.5
    assert fit.accuracy == pytest.approx((1.0 + 8 / 9) / 2)


def test_equal_readings_are_never_cut_apart() -> None:
    fit = fit_threshold(floats(1, 2, 2, 2, 3), floats(0, 0, 0.5, 0.5, 0.5))
    assert fit.value == 1.5


def test_of_two_thresholds_as_good_the_higher_is_taken() -> None:
    fit = fit_threshold(floats(1, 2, 3, 4), floats(0.0, 0.5, 0.0, 0.5))
    assert fit.value == 3.5


def test_a_metric_that_tells_nothing_says_so_by_its_accuracy() -> None:
    fit = fit_threshold(floats(2, 2, 2, 2), floats(0.0, 0.5, 0.0, 0.5))
    assert fit.accuracy == 0.5
    assert fit.value > 2


def test_a_metric_that_cannot_be_read_is_predicted_and_the_others_are_read() -> None:
    metrics = np.array([[np.nan, 0.1, 0.0], [np.nan, 0.3, 0.0], [50.0, 0.0, 0.0], [np.nan] * 3])
    lost = np.array([[0.15, 0.9, 0.9], [0.05, 0.9, 0.9], [0.9, 0.9, 0.9], [np.nan] * 3])
    found = intensities(metrics, np.repeat(THRESHOLDS, 4, axis=0), lost)
    # a predicted loss of 15 % is 0.75; 0.3 of 0.2 is 0.75; 50 of 100 is 0.25
    np.testing.assert_allclose(found, [0.75, 0.75, 0.25, np.nan])


@pytest.mark.parametrize(
    ("metric", "lost", "message"),
    [
        (floats(1, 2), floats(0.0, 0.1), "0 above and 2 below"),
        (floats(1, 2), floats(0.2, 0.11), "2 above and 0 below"),
        (floats(), floats(), "0 above and 0 below"),
        (floats(-1, 2), floats(0.0, 0.5), "metric must be finite"),
        (floats(1, np.nan), floats(0.0, 0.5), "metric must be finite"),
        (floats(1, 2), floats(0.5), "one for each metric"),
    ],
)
def test_a_training_run_that_teaches_nothing_is_refused(
    metric: Floats, lost: Floats, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fit_threshold(metric, lost)


@given(st.integers(0, 10_000))
def test_no_cut_is_better_than_the_one_that_is_taken(seed: int) -> None:
    rng = np.random.default_rng(seed)
    metric = rng.integers(0, 6, size=9).astype(np.float64)
    lost = np.append(rng.choice([0.0, 0.5], size=7), [0.0, 0.5])
    is_taz = lost > 0.1
    cuts = np.arange(-0.5, 7.0)
    by_hand = [
        ((metric[is_taz] > cut).mean() + (metric[~is_taz] <= cut).mean()) / 2 for cut in cuts
    ]
    fit = fit_threshold(metric, lost)
    reached = ((metric[is_taz] > fit.value).mean() + (metric[~is_taz] <= fit.value).mean()) / 2
    assert reached == pytest.approx(max(by_hand))
    assert fit.accuracy == pytest.approx(reached)


def test_a_container_is_as_intense_as_its_worst_metric() -> None:
    metrics = np.array([[100.0, 0.0, 0.1], [10.0, 0.3, 0.0], [900.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert intensities(metrics, THRESHOLDS) == pytest.approx([0.5, 0.75, 1.0, 0.0])


def test_what_was_not_read_does_not_count() -> None:
    metrics = np.array([[np.nan, 0.1, np.nan], [np.nan, np.nan, np.nan]])
    assert intensities(metrics, THRESHOLDS) == pytest.approx([0.25, np.nan], nan_ok=True)


def test_a_metric_that_never_costs_makes_no_taz() -> None:
    assert intensities(np.array([[1e9, 0.0, 0.0]]), np.array([[np.inf, 1.0, 1.0]]))[0] == 0.0


def read(classes: ContainerClasses, *values: float, passed_s: float = 1e9) -> ContainerClasses:
    return classes.after(floats(*values), np.full(len(values), passed_s))


def test_the_first_reading_decides_at_the_threshold() -> None:
    classes = read(ContainerClasses.unread(3), 0.5, 0.49, np.nan)
    assert classes.is_taz.tolist() == [True, False, False]
    assert classes.intensity == pytest.approx([0.5, 0.49, np.nan], nan_ok=True)


def test_a_class_changes_only_beyond_the_margin() -> None:
    start = read(ContainerClasses.unread(4), 0.7, 0.7, 0.3, 0.3)
    edge = AT_THRESHOLD
    later = read(
        start, edge - 0.9 * HYSTERESIS, edge - 1.1 * HYSTERESIS, edge + 0.9 * HYSTERESIS, 0.61
    )
    assert later.is_taz.tolist() == [True, False, False, True]


def test_a_short_peak_makes_no_taz_and_a_long_one_does() -> None:
    calm = read(ContainerClasses.unread(1), 0.2)
    assert not read(calm, 1.0, passed_s=SMOOTHING_S / 4).is_taz[0]
    assert read(calm, 1.0, passed_s=2 * SMOOTHING_S).is_taz[0]


def test_a_minute_in_steps_counts_as_a_minute_at_once() -> None:
    steps = start = read(ContainerClasses.unread(1), 0.2)
    for _ in range(6):
        steps = read(steps, 0.8, passed_s=10.0)
    assert steps.intensity == pytest.approx(read(start, 0.8, passed_s=60.0).intensity)


def test_what_was_not_read_stays_as_it_was() -> None:
    start = read(ContainerClasses.unread(2), 0.7, 0.2)
    later = read(start, np.nan, np.nan)
    assert later.is_taz.tolist() == [True, False]
    assert later.intensity.tolist() == start.intensity.tolist()


def test_a_loud_job_wants_the_smallest_place_that_holds_it() -> None:
    size = np.array([1, 2, 3, 8, 9])
    classes = communication(np.full(5, CLUSTER), np.full(5, 5e6), size, LINKS)
    assert classes.tolist() == [CLUSTER, NODE, RACK, RACK, CLUSTER]


def test_a_quiet_job_may_be_anywhere() -> None:
    classes = communication(np.full(2, CLUSTER), floats(0.0, 1.05e6), np.array([2, 8]), LINKS)
    assert classes.tolist() == [CLUSTER, CLUSTER]


def test_a_job_stays_together_while_its_traffic_wavers() -> None:
    before = np.array([NODE, NODE, CLUSTER, RACK])
    classes = communication(before, floats(0.95e6, 0.85e6, 1.2e6, np.nan), np.full(4, 2), LINKS)
    assert classes.tolist() == [NODE, CLUSTER, NODE, NODE]
