"""Distances between a live run and an offline run, and a live run in processes."""

import asyncio
import json
from dataclasses import replace
from io import StringIO
from math import nan
from pathlib import Path

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from apps.execution.infrastructure.addresses import DescriptorsError
from apps.testbed.core.live.cases import at_speed
from apps.testbed.core.live.fidelity import completion_s, distance, fidelity, waiting_s
from apps.testbed.core.reservation.model import Machines, Scheduler
from apps.testbed.core.reservation.run import run_reservation
from apps.testbed.core.reservation.synthetic import synthetic
from apps.testbed.infrastructure.emulator_process import run_with_emulator
from apps.testbed.infrastructure.live_nodes import LiveCase
from tests.testbed.live.worlds import ints, jobs, machines, play

values = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=30)


@given(values, values)
def test_the_distance_is_the_largest_difference_of_shares(
    first: list[float], second: list[float]
) -> None:
    def share(part: list[float], limit: float) -> float:
        return sum(value <= limit for value in part) / len(part)

    expected = max(abs(share(first, at) - share(second, at)) for at in range(10))
    found = distance(np.array([*first, nan]), np.array(second))
    assert found == pytest.approx(expected)


def test_runs_without_values_are_equal_to_each_other_and_to_nothing_else() -> None:
    nothing, some = np.array([nan]), np.array([1.0])
    assert (distance(nothing, nothing), distance(nothing, some)) == (0.0, 1.0)


def test_a_job_waits_for_its_first_start_and_completes_with_its_last_end() -> None:
    workload = jobs((1.0, [(5, 10.0), (5, 20.0), (5, 30.0)]), (2.0, [(99, 1.0)]))
    run = run_reservation(
        workload, machines(10, 10), Scheduler(network_s=0.5, probe_s=0.0), seed=1
    )
    assert waiting_s(workload, run)[0] == 0.5
    assert completion_s(workload, run)[0] == 30.5
    assert np.isnan(waiting_s(workload, run)[1])
    started = replace(workload, machine=ints(0, 0, 1, -1))
    assert np.isnan(waiting_s(started, run)).all()


def test_a_live_run_is_as_close_as_two_offline_runs() -> None:
    """In virtual time, with drawn times of messages; 600 jobs, so 0.1 is far above chance."""
    workload, cluster = synthetic(2400, 38, 0.8, np.random.default_rng(1))
    workload = at_speed(workload, float(workload.submit_s[-1]) / 30.0)
    scheduler = Scheduler(network_s=0.02, network_spread=1.0, probe_s=0.0)
    live = play(LiveCase(workload, cluster, scheduler, until_s=30.0))
    offline = run_reservation(workload, cluster, scheduler, seed=1, until_s=30.0)
    found = fidelity(workload, live, offline)
    assert found.waiting < 0.1
    assert found.completion < 0.1
    assert found.failed == pytest.approx(found.other_failed, abs=2.0)
    far = run_reservation(
        workload, cluster, replace(scheduler, network_s=0.05), seed=1, until_s=30.0
    )
    assert fidelity(workload, live, far).waiting > 0.3


def test_a_run_with_a_node_process_measures_both_processes() -> None:
    workload = jobs(*((0.01 * n, [(1, 0.05), (2, 0.05)]) for n in range(20)))
    case = LiveCase(workload, machines(100, 100, 100), Scheduler(heartbeat_s=0.1), until_s=60.0)
    outcome = asyncio.run(run_with_emulator(case, address="tcp:127.0.0.1:0"))
    assert outcome.result.failed_jobs(workload) == 0
    assert outcome.totals["started"] == 40
    assert outcome.totals["heartbeats"] > 0
    assert outcome.node_share >= 0.0
    assert outcome.scheduler_share > 0.0


def test_more_nodes_than_open_files_are_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 100))
    size = np.ones(50, dtype=np.int64)
    case = LiveCase(jobs((0.0, [(1, 1.0)])), Machines(size, size, size), Scheduler(), 1.0)
    with pytest.raises(DescriptorsError, match="50 connections need 114 open files"):
        asyncio.run(run_with_emulator(case))


def test_run_nodes_replays_a_synthetic_workload_and_compares_it() -> None:
    out = StringIO()
    call_command(
        "run_nodes",
        "--tasks=40",
        "--nodes=8",
        "--seconds=2",
        "--heartbeat=0.5",
        "--policy=check_all",
        "--json",
        stdout=out,
    )
    found = json.loads(out.getvalue())
    assert (found["nodes"], found["policy"], found["jobs"]) == (8, "check_all", 10)
    assert 0.0 <= found["fidelity"]["waiting"] <= 1.0
    assert found["delay_ms"]["p50"] > 0.0


def test_run_nodes_replays_a_batch_log(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 4\n1 0 0 10 2 -1 -1 2 10 -1 1 1 1 -1 1 1 -1 -1\n")
    out = StringIO()
    call_command("run_nodes", f"--swf={log}", "--speed=100", "--heartbeat=0.1", stdout=out)
    assert "1 jobs, 2 tasks, 4 nodes" in out.getvalue()
    assert "0.00 % of jobs failed live" in out.getvalue()


def test_run_nodes_names_what_it_does_not_accept() -> None:
    with pytest.raises(CommandError, match=r"heartbeat_s is 0\.01; expected"):
        call_command("run_nodes", "--heartbeat=0.01")
    with pytest.raises(CommandError, match="expected unix:PATH or tcp:HOST:PORT"):
        call_command("run_nodes", "--tasks=4", "--nodes=2", "--address=here")
