import numpy as np
import pytest

from apps.emulation.core.queueing import TIMEOUT_S, latency_percentile, waiting_share


def test_erlang_c_of_one_unit_is_its_load() -> None:
    assert waiting_share(np.array([1]), np.array([0.7])) == pytest.approx([0.7])


def test_erlang_c_matches_a_published_value() -> None:
    # c = 2, a = 1.5: C = (a^2/2)(c/(c-a)) / (1 + a + (a^2/2)(c/(c-a))) = 4.5 / 7
    assert waiting_share(np.array([2]), np.array([1.5])) == pytest.approx([4.5 / 7.0])


def test_one_unit_answers_as_m_m_1() -> None:
    latencies = latency_percentile(np.array([1]), np.array([10.0]), np.array([6.0]), 0.99)
    assert latencies == pytest.approx([np.log(100.0) / 4.0], rel=1e-9)


def test_an_idle_service_answers_in_its_service_time() -> None:
    latencies = latency_percentile(np.array([4]), np.array([40.0]), np.array([1e-9]), 0.99)
    assert latencies == pytest.approx([np.log(100.0) / 10.0], rel=1e-6)


def test_latency_rises_with_load_and_ends_at_the_timeout() -> None:
    load = np.linspace(1.0, 45.0, 20)
    latencies = latency_percentile(np.full(20, 4), np.full(20, 40.0), load, 0.99)
    assert np.all(np.diff(latencies) >= 0.0)
    assert latencies[-1] == TIMEOUT_S


def test_the_pole_of_the_formula_is_smooth() -> None:
    # offered load exactly c - 1 makes the closed form 0/0
    loads = np.array([9.999999, 10.0, 10.000001])
    latencies = latency_percentile(np.full(3, 2), np.full(3, 20.0), loads, 0.99)
    assert latencies == pytest.approx(np.full(3, latencies[0]), rel=1e-5)


def test_no_services_give_no_latencies() -> None:
    empty = np.zeros(0)
    assert latency_percentile(np.zeros(0, dtype=np.int64), empty, empty, 0.99).shape == (0,)
