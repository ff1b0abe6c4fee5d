"""Models of workloads: distributions, arrivals, fits, documents and the papers' mixes."""

import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from apps.testbed.core.arrival_fit import fit_process
from apps.testbed.core.arrival_gaps import Gaps
from apps.testbed.core.arrivals import (
    Diurnal,
    Modulated,
    Poisson,
    Process,
    Regular,
    arrivals,
)
from apps.testbed.core.fitting import ks_distance
from apps.testbed.core.trace_workload import TraceFormat, TraceWorkload, job_table
from apps.testbed.core.workload_model.distributions import Continuous, Discrete, Quantiles, fitted
from apps.testbed.core.workload_model.document import document_of, model_of
from apps.testbed.core.workload_model.fit import distances, fit
from apps.testbed.core.workload_model.mixes import MIXES
from apps.testbed.core.workload_model.model import WorkloadModelError, generated

DAY_S = 86_400.0


# ---- distributions ----


@pytest.mark.parametrize(
    ("family", "drawn", "shape", "scale"),
    [
        ("lognormal", stats.lognorm(0.8, scale=50.0), 0.8, 50.0),
        ("gamma", stats.gamma(3.0, scale=20.0), 3.0, 20.0),
        ("weibull", stats.weibull_min(2.5, scale=30.0), 2.5, 30.0),
        ("exponential", stats.expon(scale=40.0), 1.0, 40.0),
    ],
)
def test_the_family_that_was_drawn_is_found(
    family: str, drawn: Any, shape: float, scale: float
) -> None:
    found = fitted(drawn.rvs(20_000, random_state=np.random.default_rng(1)))
    assert isinstance(found, Continuous)
    assert found.family == family
    # 20,000 values: standard errors of shape and scale are below 1.5 %
    assert (found.shape, found.scale) == pytest.approx((shape, scale), rel=0.06)


def test_two_peaks_and_a_frequent_value_are_kept() -> None:
    rng = np.random.default_rng(4)
    values = np.concatenate([rng.lognormal(2.0, 0.2, 800), rng.lognormal(8.0, 0.2, 800),
                             np.full(400, 75.0)])  # fmt: skip
    found = fitted(values)
    assert isinstance(found, Quantiles)
    drawn = found.quantile(rng.random(2000))
    assert ks_distance(values, drawn) < 1.63 * np.sqrt(2 / 2000)  # 1 % level
    assert np.mean(np.isclose(drawn, 75.0)) == pytest.approx(0.2, abs=0.04)


def test_few_values_keep_their_frequencies() -> None:
    found = fitted(np.array([1.0, 4.0, 4.0, 8.0]))
    assert found == Discrete((1.0, 4.0, 8.0), (0.25, 0.5, 0.25))
    assert found.quantile(np.array([0.0, 0.24, 0.26, 0.74, 0.76, 0.999])).tolist() == [
        1.0, 1.0, 4.0, 4.0, 8.0, 8.0,
    ]  # fmt: skip


def test_a_truncated_distribution_stays_in_its_bounds() -> None:
    values = Continuous("lognormal", 2.0, 10.0, 5.0, 20.0).quantile(np.linspace(0.0, 0.9999, 500))
    assert (values.min(), values.max()) == pytest.approx((5.0, 20.0), rel=0.01)
    assert (np.diff(values) >= 0.0).all()


# ---- arrivals ----


@pytest.mark.parametrize(
    "process",
    [
        Poisson(),
        Regular(0.2),
        Modulated(9.0, 30.0, 10.0),
        Diurnal(tuple(range(24)), 2.0),
        Gaps((0.0, 0.5, 1.0), (0.0, 0.1, 5.0), 0.5, 0.9, (1.0,) * 24, 1.0),
    ],
    ids=["poisson", "regular", "modulated", "diurnal", "gaps"],
)
@pytest.mark.parametrize("burst", [0.0, 2.0])
def test_every_process_draws_the_number_of_jobs_in_order(process: Process, burst: float) -> None:
    times = arrivals(process, 500, DAY_S, np.random.default_rng(3), burst=burst)
    assert times.size == 500
    assert times[0] >= 0.0
    assert (np.diff(times) >= 0.0).all()
    again = arrivals(process, 500, DAY_S, np.random.default_rng(3), burst=burst)
    assert np.array_equal(times, again)


def test_regular_arrivals_have_equal_intervals() -> None:
    assert arrivals(Regular(), 4, 40.0, np.random.default_rng(1)).tolist() == [0.0, 10.0, 20.0,
                                                                              30.0]  # fmt: skip


def test_burst_adds_its_variance_to_the_rate_of_minutes() -> None:
    jobs, minutes = 144_000, 1440
    for burst in (0.0, 0.5, 2.0):
        times = arrivals(Poisson(), jobs, DAY_S, np.random.default_rng(5), burst=burst)
        counts = np.bincount((times // 60).astype(np.int64), minlength=minutes)
        mean = jobs / minutes
        # variance of a count of mean m: m + burst m²; 1,440 minutes
        assert counts.var() == pytest.approx(mean + burst * mean**2, rel=0.2)


@pytest.mark.parametrize(
    "process",
    [Poisson(), Modulated(12.0, 60.0, 30.0), Diurnal((*[1.0] * 12, *[6.0] * 12), 5.0)],
    ids=["poisson", "modulated", "diurnal"],
)
def test_the_process_that_was_drawn_is_found(process: Process) -> None:
    times = arrivals(process, 20_000, 3 * DAY_S, np.random.default_rng(7))
    assert type(fit_process(times, 3 * DAY_S)) is type(process)


def test_a_fitted_day_has_the_hours_and_bursts_of_its_source() -> None:
    source = Diurnal((*[1.0] * 12, *[6.0] * 12), 4.0)
    found = fit_process(arrivals(source, 40_000, 5 * DAY_S, np.random.default_rng(2)), 5 * DAY_S)
    assert isinstance(found, Diurnal)
    hours = np.array(found.hours)
    assert hours[12:].sum() / hours.sum() == pytest.approx(6 / 7, rel=0.05)
    assert found.shape == pytest.approx(4.0, rel=0.15)


# ---- fits ----


def trace_of_two_classes(n: int = 3000) -> TraceWorkload:
    """Small jobs of one task, and large ones whose tasks grow with their work."""
    rng = np.random.default_rng(11)
    is_large = rng.random(n) < 0.3
    work = np.where(is_large, rng.lognormal(10.0, 0.5, n), rng.lognormal(3.0, 0.4, n))
    tasks = np.where(is_large, np.maximum(np.rint(work / 75.0), 1.0), 1.0)
    target = np.where(is_large & (rng.random(n) < 0.5), 4.0 * work, np.inf)
    return TraceWorkload(
        "two",
        TraceFormat.BERTH,
        ("app",),
        ("analytics",),
        job_table(
            np.sort(rng.uniform(0.0, DAY_S, n)), np.zeros(n), work, tasks=tasks, target_s=target,
            unit_memory_bytes=np.full(n, 1e9),
        ),
    )  # fmt: skip


def test_a_fit_finds_the_classes_and_resembles_its_source() -> None:
    trace = trace_of_two_classes()
    found = fit(trace, np.random.default_rng(1))
    small = trace.jobs.work_s < 500.0
    assert len(found.classes) >= 2
    assert not set(found.label[small]) & set(found.label[~small])
    rows = distances(trace, found, 5)
    for row in rows:
        # samples of one distribution are this close in 95 % of cases; k-means cuts the tails
        assert row["low"] <= row["distance"] <= row["high"]
        assert row["distance"] < max(0.1, 1.5 * row["same_distribution"]), row


def test_a_bad_fit_shows_a_large_distance() -> None:
    trace = trace_of_two_classes()
    found = fit(trace, np.random.default_rng(1), classes=1)
    other = replace(trace, jobs=replace(trace.jobs, work_s=3.0 * trace.jobs.work_s))
    work = next(row for row in distances(other, found, 5) if row["quantity"] == "work_s")
    assert work["low"] > 3 * work["same_distribution"]


def test_a_fit_keeps_the_correlation_of_work_and_tasks() -> None:
    trace = trace_of_two_classes()
    drawn = generated(fit(trace, np.random.default_rng(1)).model, 3)
    large = drawn.jobs.work_s > 500.0
    ranks = stats.spearmanr(drawn.jobs.work_s[large], drawn.jobs.tasks[large]).statistic
    assert ranks > 0.9
    share = np.isfinite(drawn.jobs.target_s[large]).mean()
    assert share == pytest.approx(0.5, abs=0.06)


def test_services_are_classes_of_their_own() -> None:
    n = 40
    trace = TraceWorkload(
        "mixed", TraceFormat.BERTH, ("web", "job"), ("latency_critical", "batch"),
        job_table(np.arange(2.0 * n) * 60.0, np.tile([0, 1], n), np.tile([np.inf, 100.0], n),
                  units=np.full(2 * n, 4), seconds=np.tile([3600.0, np.nan], n)),
    )  # fmt: skip
    drawn = generated(fit(trace, np.random.default_rng(1)).model, 2)
    services = np.isinf(drawn.jobs.work_s)
    kinds = np.array(drawn.kinds)[drawn.jobs.application]
    assert set(kinds[services]) == {"latency_critical"}
    assert set(drawn.jobs.seconds[services]) == {3600.0}
    assert set(kinds[~services]) == {"batch"}


@pytest.mark.parametrize("classes", [-1, 13])
def test_a_fit_refuses_an_impossible_number_of_classes(classes: int) -> None:
    with pytest.raises(WorkloadModelError, match=r"at least 2 jobs and 0 \.\. 12 classes"):
        fit(trace_of_two_classes(50), np.random.default_rng(1), classes=classes)


# ---- knobs and documents ----


def test_scale_multiplies_the_jobs_in_the_same_time() -> None:
    mix = MIXES["quasar-cloud"]
    one, two = generated(mix, 1), generated(mix, 1, scale=2.0)
    assert (len(one), len(two)) == (1200, 2400)
    assert two.jobs.submit_s[-1] == pytest.approx(one.jobs.submit_s[-1], abs=1.0)


@pytest.mark.parametrize(
    ("scale", "burst"), [(0.0, 0.0), (-1.0, 0.0), (np.nan, 0.0), (1.0, -1.0), (1e9, 0.0)]
)
def test_knobs_out_of_range_are_refused(scale: float, burst: float) -> None:
    with pytest.raises(WorkloadModelError, match=r"scale must be > 0|a trace has 1 \.\."):
        generated(MIXES["paragon-low"], 1, scale=scale, burst=burst)


@pytest.mark.parametrize("name", sorted(MIXES))
def test_a_mix_survives_writing_and_reading(name: str) -> None:
    again = model_of(json.loads(json.dumps(document_of(MIXES[name]))))
    assert again == MIXES[name]


@pytest.mark.parametrize("name", sorted(set(MIXES) - {"tarcil-short", "tarcil-resident"}))
def test_a_mix_has_the_papers_number_of_jobs(name: str) -> None:
    mix = MIXES[name]
    drawn = generated(mix, 1)
    assert len(drawn) == sum(stream.jobs for stream in mix.streams)
    assert mix.source
    assert mix.notes


def test_the_mixes_have_the_numbers_and_intervals_of_the_papers() -> None:
    low, over = generated(MIXES["paragon-low"], 1), generated(MIXES["paragon-oversubscribed"], 1)
    assert np.diff(low.jobs.submit_s) == pytest.approx(np.full(177, 10.0))
    assert np.diff(over.jobs.submit_s) == pytest.approx(np.full(177, 1.0))
    gaps = np.diff(generated(MIXES["paragon-medium"], 1).jobs.submit_s)
    assert gaps.std() == pytest.approx(1.0, rel=0.2)  # 177 gaps
    large = generated(MIXES["tarcil-large"], 1)
    assert (len(large), round(float(large.jobs.submit_s[-1]))) == (7200, 7199)


def broken(**changes: Any) -> dict[str, Any]:
    """Return the document of a small mix, changed at paths such as ``streams.0.jobs``."""
    document: dict[str, Any] = json.loads(json.dumps(document_of(MIXES["clavismo-india"])))
    for path, value in changes.items():
        *parents, last = path.split("__")
        part: Any = document
        for key in parents:
            part = part[int(key)] if key.isdigit() else part[key]
        part[last] = copy.deepcopy(value)
    return document


CLASS = "streams__0__classes__0__"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "the document must be a JSON object"),
        (broken(version=2), "expected format 'berth-workload' and version 1"),
        (broken(streams=[]), "streams must be a list with at least one entry"),
        (broken(streams__0__jobs="4"), r"streams\[0\].jobs must be a number of at least 0, not"),
        (broken(streams__0__jobs=1.5), "a whole number of jobs"),
        (broken(streams__0__span_s=10**400), r"span_s must be a number of at least 0.001"),
        (broken(streams__0__process={"kind": "x"}), "process.kind must be one of poisson, regul"),
        (broken(streams__0__process={"kind": "diurnal", "hours": [1]}), "must be 24 rates"),
        (broken(**{f"{CLASS}kind": "x"}), "kind must be one of analytics"),
        (broken(**{f"{CLASS}quantities": {"units": {"family": "x"}}}), "family must be one of"),
        (broken(**{f"{CLASS}quantities__work_s": {"family": "quantiles", "values": [2, 1]}}),
         "values must be at least two, > 0 and ascending"),
        (broken(**{f"{CLASS}quantities": {}}), "needs work_s, or seconds and units"),
        (broken(**{f"{CLASS}copula": [[1.0]]}), "copula must be a 3 x 3 correlation matrix"),
        (broken(**{f"{CLASS}weight": -1}), "weight must be a number of at least 0, not -1"),
        (broken(**{f"{CLASS}quantities__work_s__values": [0]}), "work_s must be > 0"),
    ],
    ids=["list", "version", "streams", "text", "half", "huge", "process", "hours", "kind",
         "family", "order", "empty", "copula", "weight", "zero"],
)  # fmt: skip
def test_an_invalid_document_names_the_part(document: object, problem: str) -> None:
    with pytest.raises(WorkloadModelError, match=problem):
        model_of(document)
