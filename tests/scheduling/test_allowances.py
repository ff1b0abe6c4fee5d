"""Sizing allowances in the database: their history, and the agents that read them."""

import pytest

from apps.common.core.ids import uuid7
from apps.scheduling.core.sizing.allowances import NEWEST, Allowances, estimated
from apps.scheduling.models import SizingAllowance, SpeedRatio
from apps.scheduling.selectors import allowances as selectors
from apps.scheduling.selectors.allowances import RecentAllowances, current_allowances
from apps.scheduling.services.allowances import JobSpeed, record_speeds

pytestmark = pytest.mark.django_db


def speeds(*ratios: float, kind: str = "completion_time", from_s: float = 0.0) -> list[JobSpeed]:
    return [JobSpeed(uuid7(), kind, ratio, from_s + i) for i, ratio in enumerate(ratios)]


def test_slow_jobs_lower_the_allowance_of_their_kind() -> None:
    assert current_allowances() == Allowances()
    assert record_speeds(speeds(*[0.6] * 30), now_s=100.0) == ["completion_time"]
    assert current_allowances() == Allowances(completion_time=0.75)
    (row,) = SizingAllowance.objects.all()
    assert (row.value, row.quantile, row.jobs, row.cluster_s) == (0.75, 0.6, 30, 100.0)


def test_a_later_observation_of_a_job_replaces_the_earlier_one() -> None:
    (first,) = speeds(0.5)
    record_speeds([first], now_s=1.0)
    record_speeds([first._replace(ratio=1.2, cluster_s=50.0)], now_s=50.0)
    (stored,) = SpeedRatio.objects.all()
    assert (stored.ratio, stored.cluster_s) == (1.2, 50.0)
    assert current_allowances().completion_time == pytest.approx(estimated([1.2]).value)


def test_the_history_has_a_row_for_each_change_only() -> None:
    for at, ratio in enumerate((0.5, 0.5, 1.0)):
        record_speeds(speeds(*[ratio] * 30, from_s=100.0 * at), now_s=100.0 * at)
    values = SizingAllowance.objects.order_by("id").values_list("value", flat=True)
    assert list(values) == pytest.approx([0.7, 57 / 90, 72 / 120])
    assert record_speeds(speeds(0.5, from_s=900.0), now_s=900.0) == []


def test_only_the_newest_jobs_are_kept() -> None:
    record_speeds(speeds(*[0.5] * 30), now_s=1.0)
    record_speeds(speeds(*[0.95] * NEWEST, from_s=1000.0), now_s=2.0)
    assert set(SpeedRatio.objects.values_list("ratio", flat=True)) == {0.95}
    assert SpeedRatio.objects.count() == NEWEST


def test_the_history_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.scheduling.services.allowances.HISTORY", 3)
    for at in range(6):
        record_speeds(speeds(*[0.5] * 20, from_s=float(at)), now_s=float(at))
    assert SizingAllowance.objects.count() == 3
    assert current_allowances().completion_time < 0.62


def test_kinds_without_a_target_have_no_allowance() -> None:
    assert record_speeds(speeds(0.5, kind="best_effort"), now_s=1.0) == []
    assert not SpeedRatio.objects.exists()


def test_an_agent_reads_the_allowances_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    recent = RecentAllowances()
    assert recent() == Allowances()
    record_speeds(speeds(*[0.6] * 30), now_s=1.0)
    assert recent() == Allowances()
    clock[0] += selectors.FRESH_S
    assert recent() == Allowances(completion_time=0.75)
