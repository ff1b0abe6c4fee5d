"""The policies that only replays run."""

import numpy as np
import pytest

from apps.scheduling.core.registry import POLICIES, PolicyParameterError
from apps.testbed.core.lab_options import option_problems
from apps.testbed.core.replay.model import ReplayError, ReplayOptions
from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES
from apps.testbed.core.replay.queueing.schedulers import SCHEDULERS, make_queueing
from apps.testbed.core.replay.run import policy_named, run
from tests.testbed.core.replay.cases import cluster, jobs, options


def test_no_policy_of_an_installation_is_one_of_the_testbed() -> None:
    assert not POLICIES.keys() & TESTBED_POLICIES.keys()
    assert SCHEDULERS.keys() == TESTBED_POLICIES.keys()


@pytest.mark.parametrize("name", sorted(TESTBED_POLICIES))
def test_the_schema_accepts_the_default_parameters(name: str) -> None:
    entry = TESTBED_POLICIES[name]
    properties = entry.schema()["properties"]
    assert properties.keys() == {each.name for each in entry.parameters}
    for each in entry.parameters:
        assert each.accepts(each.default)
        assert properties[each.name]["minimum"] == each.low
    defaults = {each.name: each.default for each in entry.parameters}
    assert make_queueing(name, defaults).name == name
    with pytest.raises(PolicyParameterError, match=f"{name} has the parameters"):
        make_queueing(name, {"none": 1.0})


@pytest.mark.parametrize("name", sorted(TESTBED_POLICIES))
def test_every_policy_of_the_testbed_runs_all_jobs(name: str) -> None:
    load = jobs(np.arange(12.0), [40.0] * 12, units=[1, 3, 2, 1] * 3)
    result = run(cluster(4, 2), load, options(policy=name))
    assert result.run.policy == name
    assert result.run.jobs_finished == 12
    assert np.nanmax(result.performance) <= 1.0


def test_an_unknown_policy_lists_those_of_the_testbed_too() -> None:
    with pytest.raises(ReplayError, match=r"unknown policy 'fifo'; known are .* in replays, spar"):
        policy_named("fifo")


def test_the_lab_checks_the_options_of_a_policy_of_the_testbed() -> None:
    good = {"policy": "sparrow", "parameters": {"probes": 1}, "agents": ReplayOptions().agents}
    assert list(option_problems(good, "/options")) == []
    bad = {"policy": "sparrow", "parameters": {"probes": 0}, "agents": 4}
    found = [(each.pointer, each.detail) for each in option_problems(bad, "/options")]
    assert found == [
        ("/options/parameters/probes", "probes must be a number in 1 .. 32, not 0"),
        ("/options/agents", "sparrow has queues of its own, and does not use it"),
    ]
