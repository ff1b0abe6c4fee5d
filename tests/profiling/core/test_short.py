"""Jobs shorter than profiling are not profiled."""

import pytest

from apps.profiling.core.plan import BUDGET_S
from apps.profiling.core.short import BYTES_PER_S, skips_profiling
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)

SERVICE = ThroughputLatency(100.0, 0.01)
RATE = InstructionRate(1e9)
SMALL, LARGE = int(BYTES_PER_S * 45.0), int(BYTES_PER_S * 45.0) + 2


@pytest.mark.parametrize(
    ("kind", "target", "duration_s", "input_bytes", "expected"),
    [
        # declared duration within the budget of the kind, any target
        ("batch", BestEffort(), 45.0, 0, True),
        ("batch", BestEffort(), 45.1, 0, False),
        ("latency_critical", SERVICE, 90.0, 0, True),
        ("latency_critical", SERVICE, 91.0, 0, False),
        ("single_node", RATE, 60.0, 0, True),
        ("single_node", RATE, 61.0, 0, False),
        ("batch", BestEffort(), 0.0, LARGE, True),
        # completion time within the budget
        ("analytics", CompletionTime(60.0), None, LARGE, True),
        ("analytics", CompletionTime(60.1), None, LARGE, False),
        ("analytics", CompletionTime(5.0), 3600.0, 0, True),
        # best effort with a small input
        ("batch", BestEffort(), None, SMALL, True),
        ("batch", BestEffort(), None, LARGE, False),
        ("batch", BestEffort(), 3600.0, SMALL, True),
        # meeting a target requires a profile, even for a small input
        ("analytics", CompletionTime(1000.0), None, 1, False),
        ("single_node", RATE, None, 1, False),
        # unknown length
        ("batch", BestEffort(), None, 0, False),
        ("latency_critical", SERVICE, None, 0, False),
    ],
)
def test_a_job_shorter_than_its_profiling_skips_it(
    kind: str, target: Target, duration_s: float | None, input_bytes: int, *, expected: bool
) -> None:
    skips = skips_profiling(kind, target, duration_s=duration_s, input_bytes=input_bytes)
    assert skips is expected


@pytest.mark.parametrize("kind", sorted(BUDGET_S))
@pytest.mark.parametrize(("budget_s", "expected"), [(10.0, True), (9.9, False)])
def test_another_budget_changes_the_limit(kind: str, budget_s: float, *, expected: bool) -> None:
    target = CompletionTime(10.0)
    assert skips_profiling(kind, target, budget_s=budget_s) is expected


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind must be one of"):
        skips_profiling("unknown", BestEffort())
