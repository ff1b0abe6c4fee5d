"""The kernel against its oracle, the assembled policy."""

import subprocess
import sys
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.scheduling.core import policies
from apps.scheduling.core.fused import FusedTarcil
from apps.scheduling.core.records import ranked_candidates
from apps.scheduling.core.tarcil import kernels
from apps.scheduling.core.tarcil.encoding import Form
from apps.scheduling.core.types import Placed, Request, Within
from apps.scheduling.core.warm_up import compile_kernels
from tests.scheduling.core.clusters import loaded, request, topology

request_fields = st.fixed_dictionaries(
    {
        "units": st.integers(1, 12),
        "gang": st.booleans(),
        "unit_memory_bytes": st.sampled_from([0.0, 1e9, 6e9]),
        "platforms": st.sampled_from([None, frozenset({"A"}), frozenset({"Z"})]),
        "labels": st.sampled_from([frozenset[str](), frozenset({"ssd=yes"})]),
        "locality": st.sampled_from([None, None, Within.RACK]),
        "spread": st.sampled_from([None, Within.SERVER, Within.RACK]),
        "sample_size": st.sampled_from([None, 1, 40]),
        "excluded": st.sampled_from([frozenset[int](), frozenset({0, 3, 999})]),
        "platform_speed": st.sampled_from([None, np.array([1.0, 0.6])]),
        "caused": st.lists(st.floats(0, 100), min_size=10, max_size=10).map(np.array),
        "measure_rank": st.just(True),
    }
)


def values_of(outcome: object) -> tuple[Any, ...]:
    """Return all values of an outcome in a comparable form."""
    if isinstance(outcome, Placed):
        candidates = [(*c[:7], c.headroom.tolist()) for c in outcome.candidates]
        rest = replace(outcome, units=(), candidates=(), ranks=())  # type: ignore[arg-type]
        plain = {name: getattr(rest, name) for name in rest.__slots__}
        return outcome.units.tolist(), candidates, outcome.ranks.tolist(), plain
    return tuple(getattr(outcome, name) for name in outcome.__slots__)  # type: ignore[attr-defined]


@settings(max_examples=150)
@given(
    st.lists(request_fields, min_size=1, max_size=4), st.integers(0, 2**32), st.sampled_from(Form)
)
def test_the_kernel_decides_like_the_assembled_policy(
    field_sets: list[dict[str, Any]], seed: int, form: Form
) -> None:
    rng = np.random.default_rng(seed)
    marked = tuple(frozenset({"ssd=yes"} if i % 3 else ()) for i in range(40))
    cluster = topology(tuple(rng.integers(1, 17, 40).tolist()), racks=5, labels=marked)
    snapshot = loaded(cluster, rng.uniform(0, 1), rng)
    requests = [request(job=f"job-{i}", **fields) for i, fields in enumerate(field_sets)]
    slow = policies.tarcil(form=form).place(snapshot, requests, np.random.default_rng(seed))
    fast = FusedTarcil(form=form).place(snapshot, requests, np.random.default_rng(seed))
    assert [values_of(outcome) for outcome in fast] == [values_of(outcome) for outcome in slow]


def test_each_kernel_is_compiled_once_for_all_requests() -> None:
    compile_kernels()
    rng = np.random.default_rng(1)
    writable = replace(loaded(topology((4, 8)), 0.5, rng), unit_free=np.ones(12, dtype=np.bool_))
    field_sets = [
        request(excluded=frozenset({1})),
        request(2, labels=frozenset({"a=b"})),
        request(3),
    ]
    FusedTarcil().place(writable, field_sets, rng)
    compiled: tuple[Any, ...] = (
        kernels.count_free,
        kernels.filter_servers,
        kernels.score_sample,
        kernels.count_outranked,
    )
    assert [len(kernel.signatures) for kernel in compiled] == [1, 1, 1, 1]


def test_reading_the_registry_does_not_import_numba() -> None:
    code = (
        "import sys; from apps.scheduling.core.registry import make; make('tarcil');"
        " sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


@pytest.mark.parametrize("count", [1, 8, 63, 64, 65, 300, 1000])
def test_long_samples_have_the_same_order(count: int) -> None:
    rng = np.random.default_rng(count)
    snapshot = loaded(topology((16,) * 100), 0.2, rng)
    spec: Request = request(64, sample_size=count)
    outcomes = [
        policy.place(snapshot, [spec], np.random.default_rng(1))[0]
        for policy in (FusedTarcil(), policies.tarcil())
    ]
    assert values_of(outcomes[0]) == values_of(outcomes[1])


def test_candidates_are_built_once_and_only_when_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = Mock(wraps=ranked_candidates._candidates)
    monkeypatch.setattr(ranked_candidates, "_candidates", build)
    rng = np.random.default_rng(3)
    (placed,) = FusedTarcil().place(loaded(topology((4, 4)), 0.2, rng), [request(2)], rng)
    assert isinstance(placed, Placed)
    assert len(placed.candidates) == placed.examined
    assert build.call_count == 0
    chosen = [c.unit for c in placed.candidates if c.verdict == "chosen"]
    assert chosen == placed.units.tolist()
    assert placed.candidates[:1] == (placed.candidates[0],)
    assert build.call_count == 1
