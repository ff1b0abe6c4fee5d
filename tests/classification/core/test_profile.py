from dataclasses import replace

import numpy as np
import pytest

from apps.classification.core.profile import scale_factors
from tests.classification.core.profiles import exact, profile, wide

USL = np.array([1.0, 1.9, 3.4, 5.6, 8.0, 9.6])


def test_rates_multiply_base_scaling_and_platform() -> None:
    of = replace(
        profile(base_rate=10.0, speeds=(1.0, 0.5)),
        scale_up=exact(USL),
        scale_out=exact([1.0, 0.9, 0.8, 0.7, 0.6, 0.5]),
    )
    assert of.rate(1).value == pytest.approx(10.0)
    assert of.rate(8).value == pytest.approx(56.0)
    assert of.rate(8, servers=4, platform="A").value == pytest.approx(10 * 1.9 * 4 * 0.8 * 0.5)


def test_bytes_have_their_own_rate() -> None:
    assert profile(base_rate=10.0, bytes_rate=3.0).rate(2, in_bytes=True).value == 6.0


def test_independent_errors_add_in_squares() -> None:
    known = profile(error=0.3)
    ends = np.array([1.0, wide(0.4)])
    speed = replace(known.platform_speed, low=1.0 / ends, high=ends)
    of = replace(known, platform_speed=speed)
    rate = of.rate(1, platform="A")
    assert rate.high / rate.value == pytest.approx(wide(0.5))
    assert rate.value / rate.low == pytest.approx(wide(0.5))


def test_between_points_curves_are_straight_in_logarithms() -> None:
    of = replace(profile(base_rate=1.0), scale_up=exact(USL))
    at_three = np.exp(np.interp(np.log(3), np.log([2, 4]), np.log([1.9, 3.4])))
    assert of.rate(3).value == pytest.approx(at_three)


def test_beyond_the_last_point_the_slope_goes_on() -> None:
    of = replace(profile(base_rate=1.0), scale_up=exact(USL))
    assert of.rate(64).value == pytest.approx(9.6 * 9.6 / 8.0)


def test_beyond_the_last_point_the_slope_is_that_of_the_last_two_points_in_logarithms() -> None:
    # the last two points, 64 and 100 servers, lie closer together than all others
    efficiency = exact([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.8, 0.6])
    known = replace(profile(base_rate=1.0), scale_out=efficiency)
    slope = np.log(0.6 / 0.8) / np.log(100 / 64)
    expected = 400 * 0.6 * (400 / 100) ** slope
    assert known.rate(400, servers=400).value == pytest.approx(expected)


@pytest.mark.parametrize("servers", [0, 5])
def test_servers_without_units_are_refused(servers: int) -> None:
    with pytest.raises(ValueError, match=f"got {servers}"):
        profile().rate(4, servers=servers)


def test_an_unknown_platform_is_named() -> None:
    with pytest.raises(ValueError, match="'Z'"):
        profile().rate(1, platform="Z")


@pytest.mark.parametrize("together", [True, False])
def test_many_sizes_at_once_equal_one_by_one(together: bool) -> None:
    low = np.array([0.9, 0.6])
    known = profile(base_rate=7.0, speeds=(1.0, 0.8), error=0.2)
    of = replace(
        known,
        platform_speed=replace(known.platform_speed, low=low),
        scale_up=replace(exact(USL), low=USL**0.9, high=USL**1.2),
    )
    sizes = np.array([1, 3, 16, 50])
    arrays = scale_factors(of, sizes, together=together, in_bytes=False)
    single = of.rate(50, servers=1 if together else 50, platform="A")
    assert [float(array[3, 1]) for array in arrays] == pytest.approx(list(single))


def test_placement_assumes_a_tolerance_halfway_to_the_pessimistic_end() -> None:
    known = profile()
    value = known.tolerated.value
    measured = replace(known, tolerated=exact(value))
    assert measured.assumed_tolerance.tolist() == value.tolist()
    inferred = replace(known, tolerated=replace(known.tolerated, low=value - 20.0))
    assert inferred.assumed_tolerance.tolist() == (value - 10.0).tolist()
