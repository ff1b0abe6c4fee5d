"""The policies that only replays run."""

import json

import numpy as np
import pytest

from apps.scheduling.core.registry import POLICIES, PolicyParameterError
from apps.testbed.core.any_format import parse_any
from apps.testbed.core.berth_jobs import berth_lines
from apps.testbed.core.lab_options import option_problems
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.grid import workload_of
from apps.testbed.core.replay.model import ReplayOptions
from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES
from apps.testbed.core.replay.queueing.schedulers import SCHEDULERS, make_queueing
from apps.testbed.core.replay.run import policy_named, run
from apps.testbed.core.swf_export import swf_lines
from apps.testbed.core.trace_workload import TraceFormat, TraceWorkload, job_table
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


def test_the_queue_of_a_batch_log_reaches_the_replay() -> None:
    row = "{n} {n} -1 50 2 -1 -1 2 60 -1 1 1 1 3 {queue} -1 -1 -1"
    lines = [row.format(n=n, queue=queue) for n, queue in enumerate((2, -1, 0, 5), start=1)]
    trace = parse_any(iter(lines), path="log.swf", name="log", strict=True)
    assert trace.jobs.queue.tolist() == [2, 0, 0, 5]
    load = workload_of(trace)
    assert load.queue.tolist() == [2, 0, 0, 5]
    assert load.part(slice(3, 4)).queue.tolist() == [5]
    again = parse_any(swf_lines(trace), path="again.swf", name="log", strict=True)
    assert again.jobs.queue.tolist() == [2, 0, 0, 5]


def test_an_exported_job_names_its_queue_only_if_it_is_known() -> None:
    table = job_table([0.0, 1.0], [0, 0], [5.0, 5.0], queue=[0, 3])
    trace = TraceWorkload("t", TraceFormat.BERTH, ("a",), ("batch",), table)
    assert [json.loads(line).get("queue") for line in berth_lines(trace)] == [None, 3]


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
