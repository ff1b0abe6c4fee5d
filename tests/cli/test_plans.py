"""`berth plan` and `berth loop`."""

import json
import re
from typing import Any

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import create_user, ensure_project
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now
from apps.placement.models import Plan, RebalancingLoop
from apps.placement.services.rebalancing.evaluation import evaluate_plan
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.plan_requests import process_plan_requests
from apps.placement.services.rebalancing.planner import measure_effect
from apps.workloads.models import Job
from controlplane.cli import plans
from controlplane.cli.errors import Exit
from controlplane.cli.long_poll import follow
from tests.cli.conftest import Berth, rows, working
from tests.placement import rebalancing_world as world
from tests.placement.rebalancing_world import create_plan, new_migration, states

OPERATIONS = "/api/v1/operations/"


@pytest.fixture
def user(transactional_db: None) -> User:
    ensure_project("default")
    return create_user(username="olga", password=None, role=Role.OPERATOR)


@pytest.fixture
def servers(user: User) -> list[Server]:
    """s0 and s2 half empty, s1 full, weights in force."""
    servers = world.servers()
    world.activate(user)
    world.running_job("one", (servers[0], 2))
    world.running_job("full", (servers[1], 4))
    world.running_job("stays", (servers[2], 1))
    return servers


def proposed(servers: list[Server]) -> Plan:
    migrated, stays = (Job.objects.get(name=name) for name in ("one", "stays"))
    return create_plan(new_migration(0, migrated, servers[2]), new_migration(1, stays, servers[0]))


def carried() -> None:
    """Execute the approved plan."""
    for _ in range(3):
        ended = execute_plans()
        world.finish_migrations()
    for plan_id in ended:
        evaluate_plan(plan_id, measure=measure_effect)


def test_a_plan_is_created(
    berth: Berth, servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    working(monkeypatch, OPERATIONS, process_plan_requests)
    code, out, _ = berth("plan", "make")
    assert code == Exit.OK
    assert out.startswith("p-0001  proposed: 1 migration, 260 to 220 W, F ")


def test_without_a_gain_no_plan_is_created(
    berth: Berth, servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.end_job(Job.objects.get(name="stays"))
    working(monkeypatch, OPERATIONS, process_plan_requests)
    code, out, _ = berth("plan", "make")
    assert code == Exit.OK
    assert out == "No migration of the 2 movable containers gains more than it costs.\n"


def test_a_plan_is_created_approved_and_followed(
    berth: Berth, servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    working(monkeypatch, OPERATIONS, process_plan_requests)

    def after_it_was_carried_out(*args: Any, **named: Any) -> Any:
        carried()
        return follow(*args, **named)

    monkeypatch.setattr(plans, "follow", after_it_was_carried_out)
    code, out, _ = berth("plan", "make", "--approve", "--wait", "--timeout", "20s")
    assert code == Exit.OK
    assert (
        "p-0001  done: 100 % of the predicted gain; power: saved 40 of the predicted 40 W" in out
    )
    assert "1 of 1 migration done" in out


def test_planning_requires_weights_in_force(berth: Berth, servers: list[Server]) -> None:
    world.deactivate()
    code, _, err = berth("plan", "make")
    assert code == Exit.CONFLICT
    assert "No weights are in force" in err


def test_plans_are_listed(berth: Berth, servers: list[Server]) -> None:
    proposed(servers)
    proposed(servers)
    _, out, _ = berth("plan", "list")
    assert [line[:2] for line in rows(out)[1:]] == [
        ["p-0002", "proposed"], ["p-0001", "superseded"]
    ]  # fmt: skip
    _, some, _ = berth("plan", "list", "--state", "proposed")
    assert [line[0] for line in rows(some)[1:]] == ["p-0002"]


def test_a_plan_is_shown_with_its_migrations(berth: Berth, servers: list[Server]) -> None:
    proposed(servers)
    code, out, _ = berth("plan", "show", "p-0001")
    assert code == Exit.OK
    assert ["modelled", "power,", "W", "300", "200"] in rows(out)
    assert [line.split()[:7] for line in out.splitlines()[-2:]] == [
        ["1", "empty", "s0", "one", "s0", "s2", "2"],
        ["2", "empty", "s0", "stays", "s2", "s0", "1"],
    ]
    _, whole, _ = berth("plan", "show", "p-0001", "-o", "json")
    assert [step["ordinal"] for step in json.loads(whole)["steps"]] == [0, 1]


def test_a_plan_shows_which_jobs_restart_and_what_they_lose(
    berth: Berth, servers: list[Server]
) -> None:
    proposed(servers)
    Server.objects.filter(name="s0").update(backend="slurm")
    Job.objects.filter(name="one").update(started_s=cluster_now() - 90.0)
    _, out, _ = berth("plan", "show", "p-0001")
    heading, first, second = out.splitlines()[-3:]
    at, end = heading.index("RESTART"), heading.index("STATE")
    assert first[at:end].strip() == "loses 1.5 min of work"
    assert second[at:end].strip() == "-"  # its server can migrate it live


def test_an_unknown_plan_is_not_found(berth: Berth, servers: list[Server]) -> None:
    code, _, err = berth("plan", "show", "p-0099")
    assert code == Exit.NOT_FOUND
    assert "berth plan list" in err


def test_migrations_are_excluded_and_restored(berth: Berth, servers: list[Server]) -> None:
    plan = proposed(servers)
    code, out, _ = berth("plan", "skip", "p-0001", "2")
    assert (code, states(plan)) == (Exit.OK, ["waiting", "skipped"])
    assert out.startswith("p-0001  proposed: 1 migration, 260 to 220 W")
    berth("plan", "skip", "p-0001", "--take", "2")
    assert states(plan) == ["waiting", "waiting"]


def test_a_conflict_suggests_showing_the_plan(berth: Berth, servers: list[Server]) -> None:
    plan = proposed(servers)
    assert berth("plan", "cancel", str(plan))[0] == Exit.OK
    code, _, err = berth("plan", "skip", str(plan), "1")
    assert (code, "try: berth plan show p-0001" in err) == (Exit.CONFLICT, True)


@pytest.mark.parametrize("arguments", [[], ["0"]])
def test_migrations_to_exclude_are_numbered_from_one(
    berth: Berth, servers: list[Server], arguments: list[str]
) -> None:
    proposed(servers)
    code, _, _ = berth("plan", "skip", "p-0001", *arguments)
    assert code == Exit.USAGE


def test_a_plan_is_approved_paused_resumed_and_cancelled(
    berth: Berth, servers: list[Server]
) -> None:
    proposed(servers)
    assert berth("plan", "approve", "p-0001")[1].startswith("p-0001  approved: 2 migrations")
    execute_plans()
    outputs = [berth("plan", verb, "p-0001")[1] for verb in ("pause", "resume", "cancel")]
    assert [line.split()[1] for line in outputs] == ["paused:", "running:", "cancelled:"]


def test_a_superseded_plan_is_a_conflict(berth: Berth, servers: list[Server]) -> None:
    proposed(servers)
    world.end_job(Job.objects.get(name="one"))
    world.end_job(Job.objects.get(name="stays"))
    code, _, err = berth("plan", "approve", "p-0001")
    assert code == Exit.CONFLICT
    assert (
        "p-0001 is superseded: all of its 2 bundles were dropped: one ended; stays ended." in err
    )
    assert "berth plan show p-0001" in err


def test_a_plan_is_rolled_back(
    berth: Berth, servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    migrated = Job.objects.get(name="one")
    create_plan(new_migration(0, migrated, servers[2]), approve=True)
    carried()
    working(monkeypatch, OPERATIONS, process_plan_requests)
    code, out, _ = berth("plan", "rollback", "p-0001")
    assert code == Exit.OK
    assert out.startswith("p-0002  proposed: 1 migration, 220 to 260 W")


def test_a_job_is_migrated_by_name(
    berth: Berth, servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    working(monkeypatch, OPERATIONS, process_plan_requests)
    code, out, _ = berth("plan", "migrate", "one", "s0", "s2", "--approve")
    assert code == Exit.OK
    assert out.startswith("p-0001  approved: 1 migration, ")
    working(monkeypatch, OPERATIONS, process_plan_requests)
    code, out, _ = berth("plan", "migrate", "stays", "s2", "s1")
    assert (code, out) == (Exit.OK, "s1 has too little free capacity for 1 unit.\n")
    assert berth("plan", "migrate", "nobody", "s2", "s1")[0] == Exit.NOT_FOUND


def test_the_loop_is_shown_and_set(berth: Berth, servers: list[Server]) -> None:
    assert "off" in berth("loop", "show")[1]
    RebalancingLoop.objects.update(looked_s=2530.4)
    out = berth("loop", "show")[1]
    assert re.search(r"^last check, cluster s  2,530$", out, re.MULTILINE)
    code, out, _ = berth(
        "loop", "set", "--mode", "advise", "--every", "30s", "--least-gain", "0.01"
    )
    assert code == Exit.OK
    assert rows(out) == [["mode", "advise"], ["every_seconds", "30"], ["least_gain", "0.01"]]


def test_set_requires_a_setting(berth: Berth, servers: list[Server]) -> None:
    assert berth("loop", "set")[0] == Exit.USAGE
