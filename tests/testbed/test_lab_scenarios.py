"""Scenarios of the Lab: copies of the cluster and of its history."""

from typing import Any

import numpy as np
import pytest

from apps.common.core.errors import FieldProblem, InvalidInputError, NotFoundError
from apps.testbed.core.lab import plan_of
from apps.testbed.core.lab_runs import run_setting
from apps.testbed.core.replay.model import Failures
from apps.testbed.models import LabScenario
from apps.testbed.selectors import lab as selectors
from apps.testbed.selectors.lab import scenario_by_id
from apps.testbed.selectors.lab_plans import plan_for, trace_of
from apps.testbed.services.lab_scenarios import create_scenario
from tests import factories
from tests.testbed.core.test_lab_bundle import plan_with

pytestmark = pytest.mark.django_db
HISTORY = {"kind": "history", "hours": 1.0}
SYNTHETIC = {"kind": "synthetic", "servers": 2}


def scenario_of(workload: dict[str, Any], **changes: Any) -> LabScenario:
    given: dict[str, Any] = {"name": "s", "cluster": SYNTHETIC, "by": None} | changes
    return create_scenario(workload=workload, **given)


def test_a_scenario_copies_the_cluster_and_its_history() -> None:
    factories.cluster()  # 7200 s of cluster time
    servers = [factories.server(), factories.server(), factories.server()]
    app = factories.application("sort")
    factories.job("old", application=app, submitted_s=10.0, input_bytes=2**30)
    first = factories.job("a", application=app, submitted_s=5000.0, input_bytes=2**27)
    second = factories.job("b", application=app, submitted_s=6000.0, duration_s=60.0, units=4)
    scenario = scenario_of(HISTORY, cluster={"kind": "now"})
    assert (scenario.servers, scenario.world) == (len(servers), "paper")
    trace = trace_of(scenario)
    assert trace.jobs.submit_s.tolist() == [0.0, 1000.0]
    assert trace.jobs.work_s.tolist() == [75.0, np.inf]
    assert trace.jobs.units.tolist() == [0, 4]
    assert scenario.job_ids == first.pk.bytes + second.pk.bytes
    factories.job("later", application=app, submitted_s=7000.0, input_bytes=2**27)
    assert len(trace_of(scenario_by_id(scenario.pk))) == 2


def test_a_long_history_keeps_its_latest_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "MAX_HISTORY_JOBS", 2)
    factories.cluster()
    app = factories.application("sort")
    for at in (4000.0, 5000.0, 6000.0):
        factories.job(f"at-{at:.0f}", application=app, submitted_s=at, input_bytes=2**27)
    scenario = scenario_of(HISTORY)
    trace = trace_of(scenario)
    assert trace.jobs.submit_s.tolist() == [0.0, 1000.0]
    assert scenario.source["notes"] == [
        "1 earlier jobs are left out: a scenario holds at most as many as these."
    ]


def test_the_notes_count_what_a_replay_does_not_model() -> None:
    factories.cluster()
    app = factories.application("sort")
    common: dict[str, Any] = {"application": app, "submitted_s": 5000.0, "input_bytes": 2**27}
    nothing: dict[str, Any] = {"labels": {}, "spread": None, "locality": None, "platforms": []}
    factories.job("plain", **common, constraints=nothing)
    factories.job("tied", **common, constraints={"platforms": ["A"]})
    factories.job("fast", **common, target={"kind": "ips", "ips": 1e9})
    factories.job("network", **common, unit_network_bps=10**9, gang=False)
    assert scenario_of(HISTORY).source["notes"] == [
        "1 of 4 jobs have constraints, which are not replayed.",
        "1 of 4 jobs have a target for queries or instructions per second, replayed as best"
        " effort.",
        "1 of 4 jobs have requests for network or storage, which are not replayed.",
        "1 of 4 jobs have no gang, but start with all their units here.",
    ]


def test_a_scenario_without_jobs_or_servers_is_refused() -> None:
    factories.cluster()
    with pytest.raises(NotFoundError, match="No server is up"):
        scenario_of(HISTORY, cluster={"kind": "now"})
    with pytest.raises(InvalidInputError, match="no job was submitted in this time"):
        scenario_of(HISTORY)
    assert not LabScenario.objects.exists()


def test_jobs_that_no_trace_can_hold_are_refused() -> None:
    factories.cluster()
    factories.job("huge", submitted_s=5000.0, input_bytes=2**27, unit_memory_bytes=2**62)
    with pytest.raises(InvalidInputError) as caught:
        scenario_of(HISTORY)
    assert caught.value.problems == [
        FieldProblem(
            "/workload/kind",
            "not_replayable",
            "history: the jobs, line 1: unit_memory_bytes is '4.611686018427388e+18'; expected"
            " a number >= 0",
        )
    ]


@pytest.mark.parametrize("jobs", [1, 2, 12], ids=["one", "two", "twelve"])
def test_a_generated_day_may_be_short(jobs: int) -> None:
    assert scenario_of({"kind": "facebook", "jobs": jobs, "seed": 1}).jobs_total == jobs


def test_failures_of_servers_are_part_of_the_scenario_and_of_its_plans() -> None:
    failures = {"per_day": 3.0, "repair_s": 600.0}
    workload = {"kind": "facebook", "jobs": 5, "seed": 1}
    calm, broken = scenario_of(workload), scenario_of(workload, failures=failures)
    choices = {
        "settings": [{"name": "a", "options": {}}],
        "seeds": [1],
        "baseline": "a",
        "bound": None,
    }
    assert "failures" not in plan_for(calm, choices).choices()
    plan = plan_for(broken, choices)
    assert plan.failures == Failures(3.0, 600.0)
    assert plan.choices()["failures"] == failures
    assert plan.digest != plan_for(calm, choices).digest
    assert plan_of(plan.choices(), plan.trace).digest == plan.digest
    wrong = plan.choices() | {"failures": {"per_day": 0, "repair_s": 600.0}}
    with pytest.raises(InvalidInputError) as caught:
        plan_of(wrong, plan.trace)
    assert [problem.pointer for problem in caught.value.problems] == ["/failures/per_day"]


def test_a_record_counts_failures_only_if_there_are_some() -> None:
    broken = plan_with(failures=Failures(2_000.0, 60.0), seeds=(1,))
    record = run_setting(broken, broken.settings[0], 1).record
    assert record["failures"]["servers"] > 0
    assert "failures" not in run_setting(plan_with(), broken.settings[0], 1).record
