"""berth policy: the registry and the contract suite, no server."""

import json

import pytest

from apps.scheduling.core import registry
from apps.scheduling.core.contract import CHECKS
from apps.scheduling.core.registry import DEFAULT, POLICIES, Entry
from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES
from controlplane.cli.errors import Exit
from controlplane.cli.main import main
from tests.scheduling import policies_that_fail
from tests.scheduling.core.test_contract import Broken


def test_every_policy_is_listed_with_its_source_and_parameters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["policy", "list", "--local", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == POLICIES.keys() | TESTBED_POLICIES.keys()
    assert {name for name, row in rows.items() if row["only_in_replays"]} == {*TESTBED_POLICIES}
    assert [name for name, row in rows.items() if row["is_default"]] == [DEFAULT]
    assert rows["quasar"]["source"] == "Quasar §3.3 (Q4)"
    assert rows["autoscale"]["parameters"]["properties"]["load"]["default"] == 0.7
    assert rows["sparrow"]["parameters"]["properties"]["probes"] == {
        "type": "number", "default": 2.0, "minimum": 1.0, "maximum": 32.0,
        "description": "probes per unit, d",
    }  # fmt: skip


def test_the_table_names_the_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "list", "--local"]) == 0
    assert "candidates=2" in capsys.readouterr().out


def test_a_policy_that_keeps_the_contract_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", "sampling", "--set", "candidates=4", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["parameters"] == {"candidates": 4}
    assert answer["passed"] == len(CHECKS) == len(answer["checks"])


def test_a_policy_that_breaks_the_contract_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Entry(lambda: Broken(outcomes=lambda _, found: found[1:]), "a test", "none")
    monkeypatch.setitem(registry.POLICIES, "broken", broken)
    assert main(["policy", "test", "broken"]) == Exit.FAILED
    assert "0 outcomes of 1 jobs" in capsys.readouterr().out


def test_a_policy_that_cannot_be_made_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", "cannot-be-made")
    assert main(["policy", "test", "theirs"]) == Exit.FAILED
    assert "the policy theirs failed with OSError: no model file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fastest"], "unknown policy 'fastest'; known are autoscale"),
        (["sparrow"], "sparrow only runs in replays; agents cannot use it"),
        (["sampling", "--set", "load=1"], "sampling has the parameters candidates, not 'load'"),
        (["sampling", "--set", "candidates"], "must look like PARAMETER=NUMBER"),
    ],
    ids=["name", "testbed", "parameter", "form"],
)
def test_unusable_arguments_are_refused_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "test", *arguments]) == Exit.USAGE
    assert sentence in capsys.readouterr().err
