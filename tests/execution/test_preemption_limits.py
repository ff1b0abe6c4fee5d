"""Proposed preemptions keep to limits: by victim, by hour and by waiting job."""

from typing import Any

import pytest

from apps.execution.models import PreemptionProposal
from apps.execution.services import proposed_preemptions
from apps.execution.services.preemption import preview_preemption
from apps.inventory.models import Cluster
from tests import factories
from tests.execution.preemption_world import NOW_S, urgent, world
from tests.execution.proposal_world import (
    automatic,
    full,
    limits,
    preempted_before,
    proposals,
    stopping,
    turn,
)

pytestmark = pytest.mark.django_db
__all__ = ["automatic", "limits", "world"]  # fixtures


@pytest.mark.usefixtures("automatic")
@pytest.mark.parametrize(
    ("times", "ago_s", "stopped"),
    [(1, 600.0, ["low-0"]), (1, 599.0, ["promised"]), (2, 9000.0, ["promised"])],
    ids=["after the cool-down", "cool-down", "too often"],
)
def test_a_job_is_preempted_again_only_within_its_limits(
    times: int, ago_s: float, stopped: list[str]
) -> None:
    preempted_before(full(), times, NOW_S - ago_s)
    urgent(2)
    turn()
    assert stopping() == stopped


def test_an_operator_is_not_bound_by_the_limits() -> None:
    victim = full()
    preempted_before(victim, 2, NOW_S)
    found = preview_preemption(urgent(2).id)
    assert [each.job.id for each in found.victims] == [victim.id]


@pytest.mark.usefixtures("automatic")
def test_victims_per_hour_are_bounded() -> None:
    full()
    urgent(2)
    PreemptionProposal.objects.create(
        job_id=factories.job().id, state="applied", is_automatic=True, cluster_s=0.0,
        decided_s=NOW_S - 3599.0, basis="", victims=3, lost=0, broken=0, preview=[],
    )  # fmt: skip
    turn()
    assert stopping() == []
    Cluster.objects.update(seen_cluster_s=NOW_S + 2.0)
    turn()
    assert stopping() == ["low-0"]


@pytest.mark.usefixtures("automatic")
def test_victims_of_others_meanwhile_count_before_it_acts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full()
    urgent(2)
    store = proposed_preemptions._store

    def others(found: Any, *, is_automatic: bool) -> Any:
        stored = store(found, is_automatic=is_automatic)
        PreemptionProposal.objects.create(
            job_id=factories.job().id, state="applied", is_automatic=False, cluster_s=0.0,
            decided_s=NOW_S, basis="", victims=3, lost=0, broken=0, preview=[],
        )  # fmt: skip
        return stored

    monkeypatch.setattr(proposed_preemptions, "_store", others)
    turn()
    assert stopping() == []
    assert proposals()[0] == (
        "withdrawn", 1, "Only 0 more jobs may be preempted within this hour.",
    )  # fmt: skip


@pytest.mark.usefixtures("automatic")
def test_a_job_preempts_others_a_limited_number_of_times() -> None:
    full()
    job = urgent(2)
    for _ in range(2):
        PreemptionProposal.objects.create(
            job_id=job.id, state="applied", is_automatic=True, cluster_s=0.0,
            decided_s=0.0, basis="", victims=1, lost=0, broken=0, preview=[],
        )  # fmt: skip
    assert turn() == 0
    assert stopping() == []
