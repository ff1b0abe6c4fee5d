"""Exclusion of migrations from a plan, and their inclusion."""

import pytest

from apps.common.core.errors import ConflictError, InvalidInputError
from apps.placement.models import Plan
from apps.placement.services.rebalancing.approval import approve_plan
from apps.placement.services.rebalancing.trimming import trim_plan
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage
from tests.placement.rebalancing_world import create_plan, new_migration, states


def trimmed(stage: Stage) -> Plan:
    """Migrations 0 and 1 are a bundle; 2 needs the capacity that they free on s1."""
    _, s1, s2 = stage.servers
    return create_plan(
        new_migration(0, stage.two, s2, bundle=0),
        new_migration(1, stage.three, s2, bundle=0),
        new_migration(2, stage.one, s1, bundle=1),
    )


def test_a_bundle_is_left_out_with_the_bundles_that_need_its_capacity(stage: Stage) -> None:
    plan = trimmed(stage)
    result = trim_plan(plan.pk, skip=[0], take=[], by="olga")
    assert result.skipped == {0, 1, 2}
    assert states(plan) == ["skipped", "skipped", "skipped"]
    assert result.notes == (
        "Migration 2 also left out: same bundle.",
        "Migration 3 also left out: not enough capacity without the others.",
    )
    assert world.planned_migration(plan, 1).message == "left out by olga"
    assert world.planned_migration(plan, 2).message.startswith("left out: it needs capacity")


def test_a_bundle_left_out_can_be_included_again(stage: Stage) -> None:
    plan = trimmed(stage)
    trim_plan(plan.pk, skip=[0], take=[], by="olga")
    result = trim_plan(plan.pk, skip=[], take=[1, 2], by="olga")
    assert result.skipped == frozenset()
    assert states(plan) == ["waiting", "waiting", "waiting"]
    assert world.planned_migration(plan, 0).message == ""


def test_the_prediction_covers_the_included_migrations(stage: Stage) -> None:
    plan = trimmed(stage)
    trim_plan(plan.pk, skip=[2], take=[], by="olga")
    plan.refresh_from_db()
    # s0 80 W and s1 120 W before; s0 80 W and s2 120 W after: no gain without migration 2
    assert plan.predicted["before"]["watts"] == pytest.approx(200.0)
    assert plan.predicted["after"]["watts"] == pytest.approx(200.0)
    assert plan.predicted["moves"] == 2


def test_a_plan_without_included_migrations_cannot_be_approved(stage: Stage) -> None:
    plan = trimmed(stage)
    trim_plan(plan.pk, skip=[0], take=[], by="olga")
    with pytest.raises(ConflictError, match="All migrations of p-0001 are left out"):
        approve_plan(plan.pk, by=stage.by.pk)


def test_an_unknown_ordinal_is_refused(stage: Stage) -> None:
    with pytest.raises(InvalidInputError, match="there is no migration 9"):
        trim_plan(trimmed(stage).pk, skip=[9], take=[], by="olga")


def test_a_bundle_cannot_be_both_left_out_and_included(stage: Stage) -> None:
    with pytest.raises(InvalidInputError, match="cannot be both left out and included"):
        trim_plan(trimmed(stage).pk, skip=[0], take=[1], by="olga")


def test_an_approved_plan_cannot_be_trimmed(stage: Stage) -> None:
    plan = trimmed(stage)
    approve_plan(plan.pk, by=stage.by.pk)
    with pytest.raises(ConflictError, match="approved plan cannot be changed"):
        trim_plan(plan.pk, skip=[0], take=[], by="olga")
