"""Runs of jobs of one unit, decided in one call, against one decision after the other."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core import policies
from apps.scheduling.core.fused import FusedTarcil
from apps.scheduling.core.tarcil import batch_kernels as tarcil_batch_kernels
from apps.scheduling.core.tarcil.encoding import Form
from apps.scheduling.core.types import Placed, Refused, Within
from tests.scheduling.core.clusters import idle, loaded, request, topology
from tests.scheduling.core.test_fused import values_of

QUIET = (0.0, 7.5, 20.0)  # of a job with a margin in every source on most servers


def scores(values: tuple[float, ...]) -> st.SearchStrategy[Floats]:
    """Scores of all sources, each one of the values."""
    return st.lists(st.sampled_from(values), min_size=N_SOURCES, max_size=N_SOURCES).map(np.array)


JOB = st.fixed_dictionaries(
    {
        "units": st.sampled_from([1, 1, 1, 1, 3]),
        "unit_memory_bytes": st.sampled_from([0.0, 0.0, 6e9]),
        "platforms": st.sampled_from([None, None, frozenset({"A"}), frozenset({"Z"})]),
        "labels": st.sampled_from([frozenset[str](), frozenset({"ssd=yes"})]),
        "locality": st.sampled_from([None, Within.RACK]),
        "sample_size": st.sampled_from([None, None, 1, 40, 100]),
        "excluded": st.sampled_from([frozenset[int](), frozenset({0, 3, 999})]),
        "platform_speed": st.sampled_from([None, np.array([1.0, 0.6])]),
        "caused": st.sampled_from([(0.0, 7.5, 49.5, 100.0), QUIET]).flatmap(scores),
        "measure_rank": st.sampled_from([False, False, False, True]),
    }
)


@settings(max_examples=150)
@given(
    field_sets=st.lists(JOB, min_size=1, max_size=12),
    seed=st.integers(0, 2**32),
    form=st.sampled_from(Form),
    share=st.sampled_from([0.0, 0.2, 0.5, 0.9, 0.99]),
)
def test_a_run_is_decided_like_its_jobs_one_by_one(
    field_sets: list[dict[str, Any]], seed: int, form: Form, share: float
) -> None:
    rng = np.random.default_rng(seed)
    marked = tuple(frozenset({"ssd=yes"} if i % 3 else ()) for i in range(40))
    cluster = topology(tuple(rng.integers(1, 17, 40).tolist()), racks=5, labels=marked)
    snapshot = loaded(cluster, share, rng)
    jobs = [request(job=f"job-{i}", **fields) for i, fields in enumerate(field_sets)]
    fast, slow = FusedTarcil(form=form), policies.tarcil(form=form)
    found = fast.place(snapshot, jobs, np.random.default_rng(seed))
    plain = slow.place(snapshot, jobs, np.random.default_rng(seed))
    assert [values_of(outcome) for outcome in found] == [values_of(outcome) for outcome in plain]
    earlier: list[Any] = []
    for job, outcome in zip(jobs, found, strict=True):
        again = fast.replay(snapshot, job, seed=outcome.seed, earlier=earlier)
        assert values_of(again) == values_of(outcome)
        if isinstance(outcome, Placed):
            earlier.append((outcome.units, job))


def test_a_run_is_one_call_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = Mock(wraps=tarcil_batch_kernels.decide)
    monkeypatch.setattr(tarcil_batch_kernels, "decide", decide)
    jobs = [request(job=str(i)) for i in range(30)]
    outcomes = FusedTarcil().place(idle(topology((8,) * 10)), jobs, np.random.default_rng(1))
    assert decide.call_count == 1
    assert len({int(o.units[0]) for o in outcomes if isinstance(o, Placed)}) == 30


def test_jobs_that_find_no_unit_are_refused_in_their_turn() -> None:
    small, large = request(), request(unit_memory_bytes=6e9)
    jobs = [large, large, large, small, small, small, small, small]
    outcomes = FusedTarcil().place(idle(topology((2, 2))), jobs, np.random.default_rng(1))
    placed = [isinstance(outcome, Placed) for outcome in outcomes]
    assert placed == [True, True, False, False, False, False, False, False]
    reasons = [outcome.reason.value for outcome in outcomes if isinstance(outcome, Refused)]
    assert reasons == ["CapacityShort"] * 6
