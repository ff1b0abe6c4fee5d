"""A pair of real commands, measured by an ordinary job of a real agent."""

import os

import pytest

from apps.testbed.models import MeasuredPair
from apps.testbed.selectors.pairs import pair_by_id
from apps.testbed.services.pair_jobs import follow_pairs
from apps.testbed.services.pair_requests import PairRequest, begin_pair
from apps.workloads.core.spec import parse_job
from tests import factories
from tests.execution.agents.conftest import Site, eventually

pytestmark = [
    pytest.mark.agent,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores"),
]
LOOP = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done"


def begin(*commands: list[str], rounds: int = 3) -> MeasuredPair:
    first, second = (
        parse_job({"command": command, "application": name, "target": {"kind": "best_effort"}})
        for command, name in zip(commands, ("one", "two"), strict=True)
    )
    # other programs may use this machine: every round counts
    request = PairRequest((first, second), rounds=rounds, window_s=0.1, max_foreign=9.9)
    return begin_pair(request, user=factories.user(), project=factories.project())


def finished(site: Site, pair: MeasuredPair) -> MeasuredPair:
    """Follow the pair until it has ended."""

    def has_ended() -> bool:
        site.scheduler.work(for_s=0.5)
        return follow_pairs() == 1

    eventually(has_ended, f"{pair} ends; agents: {site.logs()}")
    return pair_by_id(pair.pk)


def test_two_commands_run_alone_and_together(site: Site) -> None:
    site.machine("box-1")
    pair = finished(site, begin(["sh", "-c", LOOP], ["sh", "-c", LOOP]))
    assert pair.operation.status == "succeeded", pair.operation.problem
    assert pair.result is not None
    assert len(pair.result["rounds"]) == 3
    for side in pair.result["sides"]:
        assert 0.1 < side["measured"]["value"] < 10.0
    assert pair.job is not None
    assert pair.job.units == pair.server_units


def test_a_pair_outlives_its_agent(site: Site) -> None:
    machine = site.machine("box-1")
    pair = begin(["sh", "-c", LOOP], ["sh", "-c", LOOP], rounds=6)
    assert pair.job is not None
    site.until(pair.job, "running")
    machine.kill()
    machine.start()
    pair = finished(site, pair)
    assert pair.operation.status == "succeeded", pair.operation.problem
    assert pair.job is not None
    assert pair.job.attempts == 1


def test_a_command_that_fails_ends_the_pair_with_its_error(site: Site) -> None:
    site.machine("box-1")
    pair = finished(site, begin(["sh", "-c", LOOP], ["sh", "-c", "echo no input >&2; exit 3"]))
    assert pair.operation.status == "failed"
    assert pair.operation.problem is not None
    assert pair.operation.problem["detail"] == (
        "The measurement ended: the second command ended with exit code 3: no input."
    )
