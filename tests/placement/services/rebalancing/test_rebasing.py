"""Plans that have not begun follow the cluster, bundle by bundle."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.inventory.models import Server, ServerState
from apps.operations.models import Event
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import Plan, PlanCause, PlannedMigration
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.preferences import weights_in_force
from apps.placement.services.rebalancing import rebasing
from apps.placement.services.rebalancing.approval import approve_plan
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.planner import NoGain, propose_plan
from apps.placement.services.rebalancing.plans import PlanSupersededError, write_plan
from apps.placement.services.rebalancing.rebased_bundles import RebasedPlan, rebased_plan
from apps.placement.services.rebalancing.rebasing import (
    REFRESH_INTERVAL,
    rebase_plan,
    rebase_plans,
)
from apps.placement.services.rebalancing.trimming import trim_plan
from apps.workloads.models import Job
from apps.workloads.services import delete_job
from tests import factories
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage
from tests.placement.rebalancing_world import create_plan, new_migration, states

IDLE_W = 40.0  # of each server


class Yard:
    """Eight servers of four units, each with one container of one unit, and power to save."""

    def __init__(self) -> None:
        self.by = factories.user("planner")
        factories.cluster(seen_cluster_s=world.NOW_S)
        kind = factories.platform("J", cores=4)
        self.servers = [factories.server(f"s{i}", of=kind, rack=f"rack-{i % 2}") for i in range(8)]
        world.activate(self.by, {"P": 1.0, "D": 0.0, "C": 0.0})
        self.jobs = [world.running_job(f"job-{i}", (s, 1)) for i, s in enumerate(self.servers)]

    def plan(self, *moves: PlannedMigration, watts: float | None = None, **values: Any) -> Plan:
        """A written plan that promises to save the idle power of a server for each bundle."""
        saved = len({move.bundle for move in moves}) * IDLE_W if watts is None else watts
        total = 8 * 120.0  # F is the power over that of all servers
        before = {"watts": 480.0, "F": 480.0 / total}
        after = {"watts": 480.0 - saved, "F": (480.0 - saved) / total}
        predicted = {"before": before, "after": after, "moves": len(moves)}
        weights = {"P": 1.0, "D": 0.0, "C": 0.0}
        return create_plan(*moves, predicted=predicted, weights=weights, **values)

    def empty(self, place: int, source: int, target: int) -> PlannedMigration:
        """Migrate the container of one server to another, as a bundle of its own."""
        moved = new_migration(place, self.jobs[source], self.servers[target], about=f"s{source}")
        moved.gain = IDLE_W / (8 * 120.0)
        return moved


@pytest.fixture
def yard(db: None) -> Yard:
    return Yard()


def fresh(plan: Plan) -> Plan:
    return selectors.plan_by_key(plan.pk)


def test_a_bundle_whose_container_ended_is_dropped_and_the_others_stay(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4), yard.empty(2, 2, 5))
    kept_ids = list(plan.migrations.order_by("ordinal").values_list("pk", flat=True))
    world.end_job(yard.jobs[1])
    rebase_plans()
    row = fresh(plan)
    assert row.state == PlanState.PROPOSED
    assert states(plan) == ["waiting", "skipped", "waiting"]
    assert list(plan.migrations.order_by("ordinal").values_list("pk", flat=True)) == kept_ids
    assert world.planned_migration(plan, 1).message == "dropped: job-1 ended"
    (change,) = row.changes
    assert (change["bundle"], change["change"], change["reason"], change["about"]) == (
        1, "dropped", "job-1 ended", "s1"
    )  # fmt: skip
    assert row.rebased_at is not None
    assert row.rebased_s == world.NOW_S


def test_a_bundle_whose_job_is_being_cancelled_is_dropped_and_says_so(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4))
    Job.objects.filter(pk=yard.jobs[1].pk).update(cancel_requested=True)
    world.end_job(yard.jobs[7])  # an entry in the change log
    rebase_plan(plan.pk, is_forced=True)
    assert [c["reason"] for c in fresh(plan).changes] == ["job-1 is being cancelled"]


def test_a_job_with_several_containers_is_named_once(yard: Yard) -> None:
    wide = world.running_job("wide", (yard.servers[0], 1), (yard.servers[0], 1))
    parts = wide.allocations.order_by("pk")
    moves = [
        PlannedMigration(
            ordinal=place, bundle=0, purpose="empty", about="s0", job=wide, allocation_id=part.pk,
            from_server_id=part.server_id, to_server_id=yard.servers[3].pk, units=1, gain=0.01,
            predicted_s=1.0,
        )
        for place, part in enumerate(parts)
    ]  # fmt: skip
    plan = yard.plan(*moves, yard.empty(2, 1, 4))
    world.end_job(wide)
    rebase_plans()
    assert {change["reason"] for change in fresh(plan).changes} == {"wide ended"}


def test_the_effect_of_the_rest_is_predicted_on_the_present_cluster(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4), yard.empty(2, 2, 5))
    world.end_job(yard.jobs[1])
    rebase_plans()
    row = fresh(plan)
    # seven servers at 40 + 80/4 W remain; two of them are emptied into others
    assert row.predicted["before"]["watts"] == pytest.approx(420.0)
    assert row.predicted["after"]["watts"] == pytest.approx(340.0)
    assert row.proposed["before"]["watts"] == pytest.approx(480.0)
    assert (row.proposed["moves"], row.proposed["bundles"]) == (3, 3)
    assert selectors.difference(row) == (
        "1 of 3 bundles dropped; 67 % of the proposed gain is left; saves 80 W instead of 120 W."
    )


def test_a_server_that_got_another_container_is_still_emptied(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4))
    arrived = world.running_job("arrived", (yard.servers[0], 1))
    Plan.objects.update(created_at=timezone.now() - REFRESH_INTERVAL)
    world.end_job(yard.jobs[7])  # an entry in the change log
    rebase_plans()
    row = fresh(plan)
    assert [(c["bundle"], c["change"], c["reason"]) for c in row.changes] == [
        (0, "rewritten", "it no longer gained enough")
    ]
    rewritten = plan.migrations.filter(bundle=0).order_by("ordinal")
    assert {m.job_id for m in rewritten} == {yard.jobs[0].pk, arrived.pk}
    assert {(m.about, m.state) for m in rewritten} == {("s0", "waiting")}
    assert plan.migrations.get(bundle=1).ordinal == 1
    assert min(m.ordinal for m in rewritten) > 1


def test_a_container_whose_target_filled_up_goes_elsewhere(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4))
    world.running_job("fills it", (yard.servers[3], 3))
    rebase_plans()
    row = fresh(plan)
    assert [(c["change"], c["reason"]) for c in row.changes] == [
        ("rewritten", "s3 no longer has enough free capacity")
    ]
    (moved,) = plan.migrations.filter(bundle=0)
    assert moved.to_server_id not in {yard.servers[0].pk, yard.servers[3].pk}
    assert row.predicted["after"]["watts"] == pytest.approx(460.0)


@pytest.fixture
def delete_meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Job], None]:
    """End and delete a job after the first re-base was computed, before it is stored."""

    def prepare(job: Job) -> None:
        pending = [job]

        def rebased_meanwhile(*about: Any) -> RebasedPlan:
            result = rebased_plan(*about)
            while pending:
                world.end_job(pending[-1])
                delete_job(pending.pop().pk)
            return result

        monkeypatch.setattr(rebasing, "rebased_plan", rebased_meanwhile)

    return prepare


def test_a_re_base_is_not_stored_if_a_job_of_the_plan_was_deleted_meanwhile(
    yard: Yard, delete_meanwhile: Callable[[Job], None]
) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4))
    world.running_job("fills it", (yard.servers[3], 3))
    delete_meanwhile(yard.jobs[0])
    assert not rebase_plan(plan.pk)
    assert (fresh(plan).rebased_at, fresh(plan).changes) == (None, [])
    assert rebase_plan(plan.pk, is_forced=True)
    assert [m.job_id for m in plan.migrations.all()] == [yard.jobs[1].pk]
    assert fresh(plan).rebased_at is not None


def test_a_rewritten_bundle_leaves_out_another_job_deleted_meanwhile(
    yard: Yard, delete_meanwhile: Callable[[Job], None]
) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4))
    arrived = world.running_job("arrived", (yard.servers[0], 1))
    Plan.objects.update(created_at=timezone.now() - REFRESH_INTERVAL)
    world.end_job(yard.jobs[7])  # an entry in the change log
    delete_meanwhile(arrived)
    assert rebase_plan(plan.pk)
    assert {m.job_id for m in plan.migrations.all()} == {yard.jobs[0].pk, yard.jobs[1].pk}


def test_a_plan_is_superseded_if_too_little_of_its_gain_is_left(yard: Yard) -> None:
    moves = [yard.empty(i, i, i + 4) for i in range(4)]
    plan = yard.plan(*moves, watts=600.0)  # promised much more than it can give
    world.end_job(yard.jobs[1])
    world.end_job(yard.jobs[2])
    rebase_plans()
    row = fresh(plan)
    assert row.state == PlanState.SUPERSEDED
    # two of four bundles save 80 of the promised 600 W; F is power over 960 W
    assert row.message == (
        "only 13 % of its predicted gain is left (F lower by 0.083 instead of 0.62); "
        "the minimum is 25 %."
    )


def test_a_plan_without_any_bundle_left_is_superseded(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3))
    world.end_job(yard.jobs[0])
    rebase_plans()
    row = fresh(plan)
    assert (row.state, row.message) == (
        PlanState.SUPERSEDED, "its only bundle was dropped: job-0 ended."
    )  # fmt: skip
    assert states(plan) == ["skipped"]


def test_a_plan_for_other_weights_is_superseded(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3))
    world.activate(yard.by, {"P": 0.1, "D": 1.0, "C": 0.0})
    rebase_plans()
    assert (fresh(plan).state, fresh(plan).message) == (
        PlanState.SUPERSEDED, "other weights are in force."
    )  # fmt: skip


def test_the_same_weights_in_fewer_racks_supersede_a_plan(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3))
    world.activate(yard.by, {"P": 1.0, "D": 0.0, "C": 0.0}, racks=[yard.servers[0].rack_id])
    rebase_plans()
    assert fresh(plan).state == PlanState.SUPERSEDED


@pytest.mark.parametrize("state", [ServerState.DRAINING, ServerState.CORDONED])
def test_a_bundle_whose_target_closes_goes_elsewhere(yard: Yard, state: ServerState) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4))
    Server.objects.filter(pk=yard.servers[3].pk).update(state=state)
    rebase_plans()
    assert fresh(plan).state == PlanState.PROPOSED
    assert not plan.migrations.filter(to_server_id=yard.servers[3].pk).exists()


def test_an_unchanged_plan_is_not_written_again(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3))
    rebase_plans()
    assert fresh(plan).rebased_at is None
    assert not Event.objects.filter(data__event="rebased").exists()


def test_capacity_that_the_plan_itself_frees_counts(yard: Yard) -> None:
    full = world.running_job("full", (yard.servers[3], 3))
    away = new_migration(0, full, yard.servers[5], about="full", purpose="improve", gain=0.0)
    plan = yard.plan(away, yard.empty(1, 0, 3), watts=IDLE_W)
    rebase_plan(plan.pk, is_forced=True)
    assert states(plan) == ["waiting", "waiting"]
    assert fresh(plan).changes == []


def test_a_rebase_is_an_event_and_keeps_the_generation(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4))
    world.end_job(yard.jobs[1])
    rebase_plans()
    assert fresh(plan).generation == plan.generation
    assert Event.objects.filter(subject=str(plan.pk)).latest("seq").data["event"] == "rebased"


def test_a_recent_rebase_is_not_repeated_while_all_bundles_are_possible(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4))
    world.end_job(yard.jobs[7])
    rebase_plans()
    assert fresh(plan).rebased_at is None
    Plan.objects.update(created_at=timezone.now() - REFRESH_INTERVAL - timedelta(seconds=1))
    rebase_plans()
    assert fresh(plan).rebased_at is not None


def test_an_approval_is_evaluated_at_present_and_says_what_changed(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4), yard.empty(2, 2, 5))
    world.end_job(yard.jobs[1])
    approve_plan(plan.pk, by=yard.by.pk, expected=plan.generation, skipped=[])
    row = fresh(plan)
    assert row.state == PlanState.APPROVED
    assert selectors.difference(row).startswith("1 of 3 bundles dropped")
    execute_plans()
    assert states(plan) == ["moving", "skipped", "moving"]


def test_an_approval_of_a_plan_with_too_little_left_is_refused(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), watts=400.0)
    world.end_job(yard.jobs[7])
    with pytest.raises(PlanSupersededError, match="of its predicted gain is left"):
        approve_plan(plan.pk, by=yard.by.pk)
    assert fresh(plan).state == PlanState.SUPERSEDED


def test_dropped_migrations_are_no_failures_of_the_plan(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4))
    world.end_job(yard.jobs[1])
    rebase_plans()
    assert [selectors.is_left_out(m) for m in plan.migrations.order_by("ordinal")] == [False, True]


def test_a_dropped_bundle_cannot_be_included_again(yard: Yard) -> None:
    plan = yard.plan(yard.empty(0, 0, 3), yard.empty(1, 1, 4))
    world.end_job(yard.jobs[1])
    rebase_plans()
    with pytest.raises(Exception, match="was dropped: job-1 ended"):
        trim_plan(plan.pk, skip=[], take=[1], by="olga")


def test_a_trimmed_plan_is_compared_with_its_promise_at_that_time(yard: Yard) -> None:
    plan = yard.plan(*(yard.empty(i, i, i + 4) for i in range(4)))
    trim_plan(plan.pk, skip=[1, 2, 3], take=[], by="olga")
    world.end_job(yard.jobs[7])
    rebase_plan(plan.pk, is_forced=True)
    row = fresh(plan)
    assert (row.state, states(plan)) == (
        PlanState.PROPOSED, ["waiting", "skipped", "skipped", "skipped"]
    )  # fmt: skip


def test_a_rollback_keeps_its_bundles_though_they_gain_nothing(stage: Stage) -> None:
    s2 = stage.servers[2]
    plan = create_plan(
        new_migration(0, stage.one, s2, bundle=0),
        new_migration(1, stage.three, s2, bundle=1),
        cause=PlanCause.REVERSE,
    )
    world.end_job(stage.one)
    rebase_plans()
    row = fresh(plan)
    assert (row.state, states(plan)) == (PlanState.PROPOSED, ["skipped", "waiting"])
    assert row.changes[0]["reason"] == "one ended"


def test_a_real_plan_outlives_two_hours_of_arrivals_and_ends(yard: Yard) -> None:
    settings = selectors.loop_settings()
    active = weights_in_force()
    assert active is not None
    proposal = propose_plan(active, cause=PlanCause.REQUEST, settings=settings)
    assert not isinstance(proposal, NoGain)
    plan = write_plan(proposal)
    for turn in range(6):
        ended = Job.objects.filter(state="running").order_by("name")[turn % 3]
        world.end_job(ended)
        server = Server.objects.filter(used_cores__lt=4).order_by("pk")[turn]
        world.running_job(f"new-{turn}", (server, 1))
        world.pass_time(1200.0)
        rebase_plans()
    row = fresh(plan)
    assert row.state == PlanState.PROPOSED, row.message
    approve_plan(plan.pk, by=yard.by.pk)
    execute_plans()
    assert world.open_migrations()
