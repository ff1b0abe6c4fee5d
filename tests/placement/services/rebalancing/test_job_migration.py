"""Plans of one migration, which a user requests for a job."""

import pytest

from apps.accounts.models import AuditEntry
from apps.common.core.errors import ConflictError, InvalidInputError
from apps.dashboard.selectors.plan import impact
from apps.execution.core.migration import STOP_S
from apps.inventory.core.backends import AGENT, KUBERNETES, SLURM
from apps.inventory.models import Rack, Server
from apps.placement.api.plan_serializers import represent_migrations
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import MigrationPurpose, Plan, PlanCause
from apps.placement.services.rebalancing.approval import approve_plan
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.job_migration import (
    propose_job_migration,
    requested_migration,
)
from apps.placement.services.rebalancing.plan_requests import (
    process_plan_requests,
    request_job_migration,
)
from apps.placement.services.rebalancing.planner import NoGain
from apps.placement.services.rebalancing.plans import NewPlan
from apps.workloads.models import Job
from tests import factories
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage


def asked(job: Job, source: str = "s0", target: str = "s2") -> dict[str, str]:
    return {"job": str(job.pk), "from_server": source, "to_server": target}


def requested(stage: Stage, *, approve: bool = False) -> Plan:
    migration = requested_migration(stage.one.pk, "s0", "s2")
    request_job_migration(migration, by=stage.by.pk, approve=approve)
    assert process_plan_requests() == 1
    return Plan.objects.get(cause=PlanCause.MIGRATE)


def test_the_plan_has_the_one_migration_that_was_named(stage: Stage) -> None:
    plan = requested(stage)
    (row,) = plan.migrations.all()
    s0, _, s2 = (server.pk for server in stage.servers)
    assert (row.job, row.from_server_id, row.to_server_id, row.units) == (stage.one, s0, s2, 2)
    assert row.purpose == MigrationPurpose.TARGET
    assert (plan.state, plan.created_by) == (PlanState.PROPOSED, stage.by)
    assert plan.message == "migrates 2 units of one from s0 to s2"
    assert plan.predicted["jobs"][0]["name"] == "one"
    entry = AuditEntry.objects.get(action="plan.requested")
    assert (entry.after or {})["to_server"] == "s2"


def test_it_can_be_approved_at_once_and_is_carried_out(stage: Stage) -> None:
    plan = requested(stage, approve=True)
    execute_plans()
    world.finish_migrations()
    execute_plans()
    assert world.states(plan) == ["done"]
    assert world.allocation_of(stage.one).server_id == stage.servers[2].pk


def test_other_weights_and_a_loss_in_f_do_not_stop_it(stage: Stage) -> None:
    plan = requested(stage)
    before, after = plan.predicted["before"], plan.predicted["after"]
    assert after["F"] >= before["F"]  # the empty server would be switched on
    world.activate(stage.by, {"P": 0.1, "D": 1.0, "C": 0.1})
    assert approve_plan(plan.pk, by=stage.by.pk).state == PlanState.APPROVED


def test_it_needs_no_weights_in_force(stage: Stage) -> None:
    world.deactivate()
    plan = requested(stage)
    assert plan.weights == {"P": 1.0, "D": 1.0, "C": 1.0}
    assert plan.activation is None
    assert approve_plan(plan.pk, by=stage.by.pk).state == PlanState.APPROVED


def test_it_is_superseded_when_its_job_ends(stage: Stage) -> None:
    plan = requested(stage)
    world.end_job(stage.one)
    with pytest.raises(ConflictError, match="superseded: its only bundle was dropped: one ended"):
        approve_plan(plan.pk, by=stage.by.pk)


@pytest.mark.parametrize(
    ("source", "target", "pointers"),
    [
        ("s0", "s9", ["/migration/to_server"]),
        ("s8", "s9", ["/migration/from_server", "/migration/to_server"]),
        ("s0", "s0", ["/migration/to_server"]),
    ],
)
def test_unknown_servers_are_named(
    stage: Stage, source: str, target: str, pointers: list[str]
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        requested_migration(stage.one.pk, source, target)
    assert [problem.pointer for problem in caught.value.problems] == pointers


def test_only_units_that_a_running_job_holds_there_are_migrated(stage: Stage) -> None:
    with pytest.raises(ConflictError, match="one has no units on s1"):
        requested_migration(stage.one.pk, "s1", "s2")
    world.end_job(stage.one)
    with pytest.raises(ConflictError, match="one is not running"):
        requested_migration(stage.one.pk, "s0", "s2")


def refused(stage: Stage, target: str = "s2") -> str:
    proposal = propose_job_migration(asked(stage.one, target=target), by=stage.by.pk)
    assert isinstance(proposal, NoGain)
    return proposal.reason


def test_a_server_without_free_units_is_refused(stage: Stage) -> None:
    assert refused(stage, "s1") == "s1 has too little free capacity for 2 units."


def test_a_closed_server_is_refused(stage: Stage) -> None:
    Server.objects.filter(name="s2").update(state="draining")
    assert refused(stage) == "s2 accepts no new work."


@pytest.mark.parametrize(
    ("constraints", "reason"),
    [
        ({"platforms": ["K"]}, "s2 has the platform J, which the job excludes."),
        ({"labels": {"gpu": "yes"}}, "s2 lacks a label that the job requires."),
        ({"excluded": ["s2"]}, "one must not run on s2."),
        ({"spread": "server"}, "The units of one must be spread: they cannot be migrated alone."),
    ],
    ids=["platform", "label", "excluded", "spread"],
)
def test_a_server_that_the_constraints_exclude_is_refused(
    stage: Stage, constraints: dict[str, object], reason: str
) -> None:
    Job.objects.filter(pk=stage.one.pk).update(constraints=constraints)
    assert refused(stage) == reason


def test_the_units_of_a_job_inside_one_rack_stay_there(stage: Stage) -> None:
    Job.objects.filter(pk=stage.one.pk).update(constraints={"locality": "rack"})
    Server.objects.filter(name="s2").update(rack=Server.objects.get(name="s1").rack)
    assert refused(stage) == "s2 is in another rack, and the units of one share one."
    same_rack = factories.server("s4", of=stage.servers[0].platform, rack="rack-0")
    proposal = propose_job_migration(asked(stage.one, target=same_rack.name), by=None)
    assert isinstance(proposal, NewPlan)


def test_the_units_of_a_job_below_one_switch_stay_there(stage: Stage) -> None:
    Job.objects.filter(pk=stage.one.pk).update(constraints={"locality": "switch"})
    Server.objects.filter(name="s2").update(rack=Server.objects.get(name="s1").rack)
    assert refused(stage) == "s2 is in another switch, and the units of one share one."
    Rack.objects.update(switch="agg-1")
    assert isinstance(propose_job_migration(asked(stage.one, target="s2"), by=None), NewPlan)


@pytest.mark.parametrize("backend", [AGENT, SLURM])
def test_a_backend_without_live_migration_restarts_the_job(stage: Stage, backend: str) -> None:
    Server.objects.update(backend=backend)
    Job.objects.update(program={"command": ["sleep", "60"]})
    plan = requested(stage)
    assert "; the job restarts there and loses " in plan.message
    rows = plan.migrations.select_related("job")
    (shown,) = represent_migrations(rows)
    assert shown["move"] == "restart"
    assert shown["predicted_seconds"] == pytest.approx(shown["lost_seconds"] + STOP_S)
    found = impact(list(rows))
    assert (found.restarts, found.moves) == (1, 1)


def test_a_backend_that_cannot_migrate_is_refused(stage: Stage) -> None:
    Server.objects.update(backend=KUBERNETES)
    with pytest.raises(ConflictError, match="cannot migrate running jobs"):
        requested_migration(stage.one.pk, "s0", "s2")


def test_a_server_of_another_backend_is_refused(stage: Stage) -> None:
    Server.objects.filter(name="s2").update(backend=AGENT)
    with pytest.raises(ConflictError, match="s2 belongs to the backend agent, not to emulated"):
        requested_migration(stage.one.pk, "s0", "s2")
