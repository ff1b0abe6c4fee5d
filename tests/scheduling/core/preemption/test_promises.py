"""Promises that a preemption breaks, and the work that it loses; by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core.preemption.promises import (
    DEADLINE as OF_DEADLINE,
)
from apps.scheduling.core.preemption.promises import (
    NO_TARGET,
    RATE,
    Promise,
    RunningJob,
    RunningJobs,
    promise,
)

DEADLINE = {"kind": "completion_time", "seconds": 1000.0}  # from 0 s on


def job(**values: Any) -> RunningJob:
    """It has run from 100 to 300 s, reported at 280 s that 40 % is done, and was to take 400 s."""
    fields: dict[str, Any] = {
        "target": DEADLINE, "units": 4, "submitted_s": 0.0, "started_s": 100.0, "saved_s": 280.0,
        "progress": 0.4, "run_high_s": 400.0,
    }  # fmt: skip
    return RunningJob(**{**fields, **values})


def test_the_loss_is_the_unsaved_time_on_all_units() -> None:
    assert job().lost(300.0) == 80
    assert job(saved_s=100.0).lost(300.0) == 800
    assert job(saved_s=310.0).lost(300.0) == 0  # a report that is newer than the clock


@pytest.mark.parametrize(
    ("values", "rest_s"),
    [
        ({}, 1.25 * 200.0 * 1.5 + 20.0),
        ({"run_high_s": 900.0}, 700.0 + 20.0),
        ({"progress": 0.04}, 200.0 + 20.0),
        ({"progress": 0.04, "saved_s": 100.0}, 200.0 + 200.0),
        ({"progress": 0.04, "run_high_s": None}, None),
    ],
    ids=["progress", "prediction", "little progress", "nothing saved", "unknown"],
)
def test_the_rest_is_the_longer_of_prediction_and_progress_plus_the_work_to_repeat(
    values: dict[str, Any], rest_s: float | None
) -> None:
    assert job(**values).rest_s(300.0) == rest_s


@pytest.mark.parametrize(
    ("values", "now_s", "away_s", "expected"),
    [
        ({}, 300.0, 305.0, Promise(False, "it meets its deadline with 0 s to spare")),
        ({}, 300.0, 306.0, Promise(True, "it may miss its deadline by 1 s")),
        ({}, 300.0, None, Promise(True, "it is not known whether it still meets its deadline")),
        ({}, 1000.0, 1.0, Promise(False, "it has already missed its deadline")),
        (
            {"target": {"kind": "ips", "ips": 1.0}}, 300.0, 0.0,
            Promise(True, "its target of instructions per second is missed"),
        ),
        (
            {"target": {"kind": "throughput_latency", "qps": 1.0}}, 300.0, 0.0,
            Promise(True, "its target of queries per second is missed"),
        ),
        ({"target": {"kind": "best_effort"}}, 300.0, None, Promise(False, "it has no target")),
    ],
    ids=["in time", "late", "unknown", "missed", "ips", "qps", "best effort"],
)  # fmt: skip
def test_a_promise_is_broken_unless_it_is_kept_for_certain(
    values: dict[str, Any], now_s: float, away_s: float | None, expected: Promise
) -> None:
    assert promise(job(**values), now_s, away_s) == expected


KINDS = {"best_effort": NO_TARGET, "completion_time": OF_DEADLINE, "ips": RATE}
SECONDS = st.floats(0.0, 1000.0)


@st.composite
def running_jobs(draw: st.DrawFn) -> RunningJob:
    target = {"kind": draw(st.sampled_from(sorted(KINDS))), "seconds": draw(SECONDS), "ips": 1.0}
    return RunningJob(
        target=target,
        units=draw(st.integers(1, 64)),
        submitted_s=draw(SECONDS),
        started_s=draw(SECONDS),
        saved_s=draw(SECONDS),
        progress=draw(st.floats(0.0, 1.0)),
        run_high_s=draw(st.none() | SECONDS),
    )


@given(st.lists(running_jobs(), min_size=1), SECONDS, st.none() | SECONDS)
def test_arrays_have_the_losses_and_promises_of_the_jobs(
    jobs: list[RunningJob], now_s: float, away_s: float | None
) -> None:
    columns = zip(
        *(
            (KINDS[one.target["kind"]], one.target["seconds"], one.units, one.submitted_s,
             one.started_s, one.saved_s, one.progress,
             np.nan if one.run_high_s is None else one.run_high_s)
            for one in jobs
        ),
        strict=True,
    )  # fmt: skip
    arrays = RunningJobs(*map(np.array, columns))
    assert arrays.lost(now_s).tolist() == [one.lost(now_s) for one in jobs]
    broken = [promise(one, now_s, away_s).breaks for one in jobs]
    assert arrays.breaks(now_s, away_s).tolist() == broken
