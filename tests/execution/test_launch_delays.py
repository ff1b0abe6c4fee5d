import numpy as np
import pytest

from apps.execution.backends.emulated.emulator import Emulator
from apps.execution.backends.emulated.launch_delays import DelayedLaunches, LaunchDelay
from tests.execution.emulated_plane import ALWAYS, MemoryPlane, launch, site

DELAY = LaunchDelay(median_s=3.0, sigma=0.0)


def emulator(plane: MemoryPlane) -> Emulator:
    return Emulator(plane, wall_s=0.0, pace=ALWAYS, launch_delay=DELAY)


def test_a_launch_starts_its_delay_after_it_was_given_units() -> None:
    plane = MemoryPlane(site(4), speed=1.0)
    backend = emulator(plane)
    backend.tick(10.0)
    plane.waiting = [launch(1, placed_s=12.0)]
    backend.tick(14.0)
    assert plane.started == {}
    backend.tick(20.0)
    assert plane.started == {1: 15.0}


def test_launches_start_in_the_order_of_their_times() -> None:
    plane = MemoryPlane(site(1), speed=1.0)
    backend = emulator(plane)
    plane.waiting = [
        launch(2, placed_s=5.0, duration_s=2.0),
        launch(1, placed_s=1.0, duration_s=4.0),
    ]
    backend.tick(20.0)
    # the second one gets the unit in the moment in which the first one ends
    assert plane.started == {1: 4.0, 2: 8.0}
    assert [(end.launch, end.at_s) for end in plane.ended] == [(1, 8.0), (2, 10.0)]


def test_a_launch_that_is_claimed_late_starts_at_once() -> None:
    plane = MemoryPlane(site(4), speed=1.0)
    backend = emulator(plane)
    backend.tick(10.0)
    plane.waiting = [launch(1, placed_s=2.0)]
    backend.tick(11.0)
    assert plane.started == {1: 10.0}


def test_a_launch_that_is_cancelled_before_its_start_time_never_starts() -> None:
    plane = MemoryPlane(site(4), speed=1.0, waiting=[launch(1, placed_s=9.0)])
    backend = emulator(plane)
    backend.tick(10.0)
    plane.cancelled = [1]
    backend.tick(11.0)
    backend.tick(20.0)
    assert plane.started == {}
    assert [(end.launch, end.outcome) for end in plane.ended] == [(1, "cancelled")]


def test_the_lease_of_a_launch_is_renewed_before_its_start_time() -> None:
    plane = MemoryPlane(site(4), speed=1.0, waiting=[launch(1, placed_s=9.0)])
    backend = emulator(plane)
    backend.tick(10.0)
    backend.tick(10.5)
    backend.tick(16.0)
    assert plane.started == {1: 12.0}
    assert plane.renewed == [1]


def test_a_launch_without_a_time_of_placement_starts_when_it_is_claimed() -> None:
    waiting = DelayedLaunches(DELAY, seed=1)
    waiting.add([launch(1)])
    assert [order.launch for _, order in waiting.due(0.0)] == [1]
    assert 1 not in waiting


def test_delays_have_their_median_and_repeat() -> None:
    delay = LaunchDelay(median_s=0.05, sigma=0.5)
    drawn = np.array([delay.seconds(7, number) for number in range(2_000)])
    # the median of 2,000 draws has a standard error of 1.25 x 0.5 / sqrt(2,000) = 1.4 %
    assert np.median(drawn) == pytest.approx(0.05, rel=0.06)
    assert np.log(drawn).std() == pytest.approx(0.5, rel=0.08)
    assert delay.seconds(7, 3) == drawn[3]
