"""Conversion of a trace into jobs and background services."""

import numpy as np
import pytest

from apps.testbed.core.formats import parse_trace
from apps.testbed.core.generator import generate_day
from apps.testbed.core.jobs import (
    BLOCK_BYTES,
    ReplayJob,
    jobs_of,
    nominal_load,
    nominal_target_s,
    slug,
)
from apps.testbed.core.replay_plan import plan_replay
from apps.testbed.core.services import IPS_PER_UNIT, QPS_PER_UNIT, plan_services
from apps.testbed.core.traces import SwimTrace
from apps.workloads.core.spec import parse_job
from tests.testbed.samples import GOOGLE_ROWS, SWIM_ROWS


def jobs_from(text: str, seed: int = 1) -> list[ReplayJob]:
    trace = parse_trace(text.splitlines(), path="a", name="My day_0")
    return jobs_of(trace, np.random.default_rng(seed))


def nominal_units(job: ReplayJob) -> float:
    target = job.spec["target"]
    return target.get("qps", 0.0) / QPS_PER_UNIT + target.get("ips", 0.0) / IPS_PER_UNIT


@pytest.mark.parametrize("text", [SWIM_ROWS, GOOGLE_ROWS])
def test_every_job_is_one_the_api_accepts(text: str) -> None:
    specs = [parse_job(job.spec) for job in jobs_from(text)]
    assert {spec.kind for spec in specs} == {"analytics"}
    assert {spec.labels["trace"] for spec in specs} == {"my-day-0"}
    assert [spec.annotations["trace_index"] for spec in specs] == list(range(len(specs)))


def test_a_job_is_never_less_than_one_block() -> None:
    spec = jobs_from(SWIM_ROWS)[0].spec
    assert spec["input_bytes"] == BLOCK_BYTES
    assert spec["tasks"] == 1


def test_reduces_read_the_shuffle_and_write_the_output() -> None:
    spec = jobs_from(SWIM_ROWS)[3].spec
    assert spec["input_bytes"] == 12_000_000_000
    assert spec["tasks"] == 90  # of 134,217,728 bytes


def test_similar_jobs_share_an_application_numbered_by_size() -> None:
    trace = parse_trace((SWIM_ROWS * 5).splitlines(), path="a", name="day")
    assert isinstance(trace, SwimTrace)
    names = [job.spec["application"] for job in jobs_of(trace, np.random.default_rng(1))]
    by_size = sorted(set(zip(trace.input_bytes.tolist(), names, strict=True)))
    assert [name for _, name in by_size] == ["day-c00", "day-c01", "day-c02", "day-c03"]


def test_about_one_job_in_seven_is_best_effort() -> None:
    jobs = jobs_of(generate_day(5894, np.random.default_rng(1)), np.random.default_rng(2))
    share = np.mean([job.spec["target"]["kind"] == "best_effort" for job in jobs])
    assert share == pytest.approx(0.15, abs=0.02)  # 4 standard errors of 0.0047


def test_google_free_band_is_best_effort_and_the_rest_has_a_target() -> None:
    kinds = [job.spec["target"]["kind"] for job in jobs_from(GOOGLE_ROWS)]
    assert kinds == ["completion_time", "best_effort"]


def test_google_tasks_of_several_cores_count_as_that_many() -> None:
    # Two tasks of 0.125 of a 16-core machine: two cores each, 50 s long, 75 s a block.
    spec = jobs_from(GOOGLE_ROWS)[0].spec
    assert spec["tasks"] == 4
    assert spec["input_bytes"] == int(2 * 50 * 2 * BLOCK_BYTES / 75)


@pytest.mark.parametrize(
    ("tasks", "seconds"),
    [
        (1, 600.0),  # never shorter than ten minutes
        (64, 600.0),
        (640, 2.5 * (30 + 10 * 75)),
        (64_000, 30 + 1000 * 75 + 6 * 3600),  # slack is at most six hours
    ],
)
def test_targets_follow_the_waves(tasks: int, seconds: float) -> None:
    assert nominal_target_s(tasks, 75.0) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("name", "expected"), [("fb2009_day0", "fb2009-day0"), ("***", "trace"), ("Ä b", "b")]
)
def test_trace_names_become_application_names(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_nominal_load_of_a_known_case() -> None:
    # 80 blocks of 75 s at speed 0.6 are 10,000 unit seconds; over 1,000 s on 20 units: 0.5.
    spec = {"input_bytes": 40 * BLOCK_BYTES}
    jobs = [ReplayJob("a", 0.0, spec), ReplayJob("b", 1000.0, spec)]
    assert nominal_load(jobs, 20) == pytest.approx(0.5)


def test_nominal_load_of_nothing_is_zero() -> None:
    assert nominal_load([], 20) == 0.0


def test_services_hold_their_share_once_all_have_come() -> None:
    jobs = plan_services(1000, 0.4, 86_400.0, np.random.default_rng(1))
    for at in (3600.0, 40_000.0, 80_000.0):
        alive = [
            nominal_units(job)
            for job in jobs
            if job.submit_s <= at < job.submit_s + job.spec["duration_seconds"]
        ]
        assert sum(alive) == pytest.approx(400, rel=0.05)


def test_services_end_soon_after_the_horizon_and_start_before_it() -> None:
    jobs = plan_services(500, 0.5, 7200.0, np.random.default_rng(1))
    assert max(job.submit_s for job in jobs) < 7200.0
    ends = [job.submit_s + job.spec["duration_seconds"] for job in jobs]
    assert max(ends) <= 7200.0 + 1800.0 + 1e-3


def test_services_are_jobs_the_api_accepts_with_unique_keys() -> None:
    jobs = plan_services(300, 0.5, 86_400.0, np.random.default_rng(1))
    specs = [parse_job(job.spec) for job in jobs]
    assert {spec.labels["role"] for spec in specs} == {"service"}
    assert len({job.key for job in jobs}) == len(jobs)


@pytest.mark.parametrize(("units", "share", "horizon"), [(0, 0.5, 10.0), (9, 0.0, 9.0), (9, 1, 0)])
def test_no_services_for_nothing(units: int, share: float, horizon: float) -> None:
    assert plan_services(units, share, horizon, np.random.default_rng(1)) == []


def test_refuses_a_share_above_one() -> None:
    with pytest.raises(ValueError, match="share"):
        plan_services(10, 1.5, 10.0, np.random.default_rng(1))


def test_a_plan_is_the_same_every_time_and_in_order() -> None:
    trace = generate_day(200, np.random.default_rng(1))
    first = plan_replay(trace, units=200, services=None, seed=4)
    assert first == plan_replay(trace, units=200, services=None, seed=4)
    assert [job.submit_s for job in first] == sorted(job.submit_s for job in first)
    assert len({job.key for job in first}) == len(first)


def test_a_plan_without_services_is_the_trace() -> None:
    trace = generate_day(50, np.random.default_rng(1))
    assert len(plan_replay(trace, units=200, services=0.0, seed=4)) == 50


def test_services_fill_what_the_trace_leaves_up_to_the_nominal_load() -> None:
    trace = generate_day(2000, np.random.default_rng(1))
    jobs = plan_replay(trace, units=4400, services=None, seed=4)
    services = [job for job in jobs if job.key.startswith("s")]
    own = nominal_load([job for job in jobs if job.key.startswith("t")], 4400)
    alive = [
        nominal_units(job)
        for job in services
        if job.submit_s <= 40_000.0 < job.submit_s + job.spec["duration_seconds"]
    ]
    assert own + sum(alive) / 4400 == pytest.approx(0.6, abs=0.03)
