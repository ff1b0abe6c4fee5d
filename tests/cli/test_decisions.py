"""The verbs of `berth decision`."""

import json
from typing import Any

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.inventory.models import Server
from apps.scheduling.models import Decision, DecisionBatch
from apps.scheduling.services.agent import make_agent
from controlplane.cli.decisions import _verdict
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth
from tests.scheduling.world import build, known, waiting, work

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def user() -> User:
    return factories.user("anna", role=Role.OPERATOR)


@pytest.fixture
def decided() -> Decision:
    factories.cluster(seen_cluster_s=3000.0)
    build(*"abcd")
    job = waiting(known(), units_requested=1, target={"kind": "best_effort"})
    work(make_agent("agent-1"))
    return Decision.objects.get(job=job)


def test_an_identical_replay_says_so(berth: Berth, decided: Decision) -> None:
    code, out, _ = berth("decision", "replay", str(decided.pk))
    assert (code, out) == (Exit.OK, "Identical in every field (job 1 of 1 decided together).\n")
    code, out, _ = berth("decision", "replay", str(decided.pk), "--json")
    assert (code, json.loads(out)["verdict"]) == (Exit.OK, "identical")


def test_a_different_replay_lists_the_fields_and_fails(berth: Berth, decided: Decision) -> None:
    Decision.objects.update(eligible=7, code_version="0.0.1")
    code, out, _ = berth("decision", "replay", str(decided.pk))
    assert code == Exit.FAILED
    lines = [line.split() for line in out.splitlines()]
    assert ["FIELD", "STORED", "NOW"] in lines
    assert ["eligible", "7", "16"] in lines
    assert lines[-1][:3] == ["code_version", "was", "0.0.1,"]


def test_a_decision_without_its_request_cannot_be_repeated(
    berth: Berth, decided: Decision
) -> None:
    DecisionBatch.objects.all().delete()
    code, out, _ = berth("decision", "replay", str(decided.pk))
    assert code == Exit.FAILED
    assert out.startswith("Cannot be repeated: its request is no longer stored")


def test_an_unknown_decision_is_not_found(berth: Berth) -> None:
    absent = "00000000-0000-7000-8000-000000000000"
    code, _, err = berth("decision", "replay", absent)
    assert (code, "try: berth why JOB" in err) == (Exit.NOT_FOUND, True)


def test_a_decision_is_made_again_with_changes(berth: Berth, decided: Decision) -> None:
    chosen = Server.objects.get(id=decided.candidates[0]["server_id"]).name
    key = str(decided.pk)
    code, out, _ = berth("decision", "redecide", key, "--without", chosen)
    assert code == Exit.OK
    lines = out.splitlines()
    assert lines[0] == "Other units."
    (servers,) = [line.split("  ") for line in lines if line.startswith("servers")]
    assert f"1 on {chosen}" in servers
    code, out, _ = berth(
        *("decision", "redecide", key, "--policy", "tarcil", "--sample", "2", "--json")
    )
    after = json.loads(out)["after"]
    assert (code, after["policy"], after["examined"]) == (Exit.OK, "tarcil", 2)
    code, out, _ = berth("decision", "redecide", key, "--set", "spread=0", "--json")
    assert (code, json.loads(out)["after"]["policy"]) == (Exit.OK, "expected")
    assert "change at least one field" in berth("decision", "redecide", key)[2]


REFUSED = {"outcome": "refused", "reason": "NoFreeUnit", "servers": []}


def on(units: int, server: str) -> dict[str, Any]:
    servers = [{"server": server, "platform": "A", "units": units}]
    return {"outcome": "placed", "reason": "", "servers": servers}


@pytest.mark.parametrize(
    ("is_same", "before", "after", "expected"),
    [
        (True, on(2, "a"), on(2, "a"), "The same units."),
        (False, on(2, "a"), on(2, "a"), "Other units of the same servers."),
        (False, on(2, "a"), on(1, "a"), "Other units."),
        (False, on(2, "a"), on(2, "b"), "Other units."),
        (False, REFUSED, on(2, "a"), "Placed instead of refused."),
        (False, on(2, "a"), REFUSED, "Refused instead of placed."),
        (True, REFUSED, REFUSED, "Refused as before."),
        (False, REFUSED, {**REFUSED, "reason": "CapacityShort"}, "Refused for another reason."),
    ],
)
def test_the_verdict_names_what_differs(
    is_same: bool,
    before: dict[str, Any],
    after: dict[str, Any],
    expected: str,
) -> None:
    assert _verdict({"is_same": is_same, "before": before, "after": after}) == expected


def test_flips_are_listed(berth: Berth, decided: Decision) -> None:
    code, out, _ = berth("decision", "flips", str(decided.pk))
    assert code == Exit.OK
    assert out.splitlines()[0].endswith("would have been chosen")
    assert "without_servers" in out
    chosen = Server.objects.get(id=decided.candidates[0]["server_id"]).name
    assert berth("decision", "flips", str(decided.pk), "--server", chosen)[1] == (
        f"{chosen} was chosen.\n"
    )
