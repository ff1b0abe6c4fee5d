"""Admission controls in replays."""

import numpy as np
import pytest

from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.model import Admission, ReplayOptions, ReplayResult
from apps.testbed.core.replay.run import run
from tests.testbed.core.replay.cases import cluster, jobs, options

BY_BUCKET = [Admission.COUNT, Admission.TARCIL_LSH]
CONTROLS = [*BY_BUCKET, Admission.ARQ]


def loaded(admission: Admission, *, max_wait_s: float = 600.0, load: float = 0.85) -> ReplayResult:
    """Jobs of two programs on 20 servers of four units at a load."""
    rng, n = np.random.default_rng(7), 1500
    work_s = rng.exponential(60.0, n)
    arrival_s = np.cumsum(rng.exponential(60.0 / (80 * load), n))
    units = rng.integers(1, 4, n)
    some = jobs(
        arrival_s,
        work_s,
        units=units,
        application=rng.integers(0, 2, n),
        gang=np.zeros(n, dtype=np.bool_),
    )
    chosen = options(admission=admission, policy="expected", max_wait_s=max_wait_s)
    return run(cluster(*(4,) * 20), some, chosen)


@pytest.mark.parametrize("admission", CONTROLS)
def test_admission_delays_jobs_and_every_job_ends(admission: Admission) -> None:
    plain, with_control = loaded(Admission.SHAPES), loaded(admission)
    assert with_control.reason == ("",) * 1500
    assert (with_control.started_s > plain.started_s).any()


@pytest.mark.parametrize("admission", BY_BUCKET)
def test_jobs_that_wait_for_units_are_refused_more_often(admission: Admission) -> None:
    assert loaded(admission).refusals.sum() > loaded(Admission.SHAPES).refusals.sum()


@pytest.mark.parametrize("admission", CONTROLS)
def test_a_wait_of_zero_changes_nothing(admission: Admission) -> None:
    plain, unbounded = loaded(Admission.SHAPES), loaded(admission, max_wait_s=0.0)
    assert unbounded.started_s.tolist() == plain.started_s.tolist()


def test_none_is_the_order_of_production() -> None:
    assert ReplayOptions.of(admission="none").admission is Admission.SHAPES
    with pytest.raises(ReplayError, match=r"max_wait_s must be at least 0"):
        ReplayOptions(max_wait_s=-1.0)
