"""Arrivals by the times between them, and the choice of a process by held-out windows."""

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from apps.testbed.core.arrival_fit import fit_process, fit_rates, held_out
from apps.testbed.core.arrival_gaps import Gaps, fit_gaps
from apps.testbed.core.arrivals import Poisson, arrivals
from apps.testbed.core.fitting import ks_distance
from apps.testbed.core.trace_workload import TraceFormat, TraceWorkload, job_table
from apps.testbed.core.traces import Floats
from apps.testbed.core.workload_model.document import document_of, model_of
from apps.testbed.core.workload_model.fit import distances, fit
from apps.testbed.core.workload_model.model import WorkloadModelError

DAY_S = 86_400.0
GAPS = Gaps(
    levels=(0.0, 0.5, 0.9, 1.0),
    gaps=(0.0, 0.02, 0.8, 18.0),
    memory=0.4,
    persistence=0.5,
    hours=(*[1.0] * 12, *[3.0] * 12),
    resolution_s=0.0,
)


def test_gaps_that_no_rate_gives_are_fitted_with_their_memory_and_hours() -> None:
    times = arrivals(GAPS, 20_000, 3 * DAY_S, np.random.default_rng(7))
    found = fit_process(times, 3 * DAY_S)
    assert isinstance(found, Gaps)
    again = arrivals(found, 20_000, 3 * DAY_S, np.random.default_rng(8))
    # rates alone are 0.4 away; the rate of each hour is known from some 800 bursty arrivals
    assert ks_distance(np.diff(times), np.diff(again)) < 0.04
    assert _rank_correlation(np.diff(again)) == pytest.approx(
        _rank_correlation(np.diff(times)), abs=0.05
    )
    afternoon = np.mean(again % DAY_S >= DAY_S / 2)
    assert afternoon == pytest.approx(0.75, abs=0.05)  # 0.5 without the hours
    assert np.mean(times % DAY_S >= DAY_S / 2) == pytest.approx(afternoon, abs=0.05)


def _rank_correlation(gaps: Floats) -> float:
    return float(stats.spearmanr(gaps[:-1], gaps[1:]).statistic)


def test_held_out_windows_tell_gaps_from_rates() -> None:
    times = arrivals(GAPS, 5_000, 2 * DAY_S, np.random.default_rng(3))
    by_rates = held_out(times, 2 * DAY_S, fit_rates)
    by_gaps = held_out(times, 2 * DAY_S, fit_gaps)
    assert by_rates is not None
    assert by_gaps is not None
    assert by_rates.is_far
    assert not by_gaps.is_far
    assert by_gaps.distance.mean() < by_rates.distance.mean() / 4


def test_a_fit_does_not_see_the_minutes_that_are_held_out() -> None:
    is_kept = np.arange(2 * 1440) % 50 < 40
    times = arrivals(GAPS, 5_000, 2 * DAY_S, np.random.default_rng(3))
    held = ~is_kept[(times / 60.0).astype(np.int64)]
    changed = np.sort(np.where(held, np.floor(times / 60.0) * 60.0 + 1e-3, times))
    assert fit_gaps(times, 2 * DAY_S, is_kept) == fit_gaps(changed, 2 * DAY_S, is_kept)
    assert fit_gaps(times, 2 * DAY_S) != fit_gaps(changed, 2 * DAY_S)


def test_arrivals_in_whole_seconds_stay_whole() -> None:
    times = np.floor(arrivals(GAPS, 3_000, DAY_S, np.random.default_rng(3)))
    found = fit_gaps(times, DAY_S)
    assert found is not None
    again = arrivals(found, 3_000, DAY_S, np.random.default_rng(4))
    assert (again == np.floor(again)).all()
    same, source = np.mean(np.diff(again) == 0.0), np.mean(np.diff(times) == 0.0)
    assert same == pytest.approx(source, abs=0.06)  # a gap of a second may become none


def test_too_few_arrivals_have_no_gaps_to_fit() -> None:
    assert fit_gaps(np.arange(10.0), 60.0) is None
    assert fit_gaps(np.zeros(50), 60.0) is None  # all at once
    assert isinstance(fit_process(np.array([0.0, 5.0]), 60.0), Poisson)


def trace() -> TraceWorkload:
    times = arrivals(GAPS, 2_000, DAY_S, np.random.default_rng(5))
    work = np.random.default_rng(6).lognormal(4.0, 1.0, times.size)
    jobs = job_table(times, np.zeros(times.size, dtype=np.int64), work)
    return TraceWorkload("gaps", TraceFormat.BERTH, ("a",), ("batch",), jobs)


def test_a_model_with_gaps_survives_its_file_and_reports_held_out_windows() -> None:
    source = trace()
    found = fit(source, np.random.default_rng(1))
    assert isinstance(found.model.streams[0].process, Gaps)
    assert model_of(json.loads(json.dumps(document_of(found.model)))) == found.model
    rows = {row["quantity"]: row for row in distances(source, found, 1)}
    row = rows["time between arrivals, held out"]
    assert row["low"] <= row["distance"] <= row["high"] < 2.0 * row["same_distribution"]
    row = rows["time between arrivals"]
    assert row["distance"] < 1.5 * row["same_distribution"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"levels": [0.0, 0.5, 0.4, 1.0]}, "as many levels as gaps, both ascending"),
        ({"gaps": [0.0, 1.0]}, "as many levels as gaps, both ascending"),
        ({"gaps": [0.0, 0.0, 0.0, 0.0]}, "as many levels as gaps, both ascending"),
        ({"levels": [0.1, 0.5, 0.9, 1.0]}, "levels must begin at 0 and end at 1"),
        ({"hours": [0.0] * 24}, "hours must be 24 rates above 0"),
        ({"memory": 1.0}, "memory and persistence must be at most 0.99"),
        ({"resolution_s": -1}, "resolution_s must be a number of at least 0, not -1"),
    ],
    ids=["order", "number", "nothing", "ends", "hours", "memory", "resolution"],
)
def test_invalid_gaps_of_a_document_are_named(change: dict[str, Any], problem: str) -> None:
    found = fit(trace(), np.random.default_rng(1), classes=1)
    document = json.loads(json.dumps(document_of(found.model)))
    document["streams"][0]["process"] = {
        "kind": "gaps",
        "levels": [0.0, 0.5, 0.9, 1.0],
        "gaps": [0.0, 0.1, 1.0, 5.0],
        "memory": 0.2,
        "persistence": 0.5,
        "hours": [1.0] * 24,
        "resolution_s": 0.0,
        **change,
    }
    with pytest.raises(WorkloadModelError, match=problem):
        model_of(document)
