"""Sparrow: batch sampling, late binding, queues at servers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.model import Failures
from apps.testbed.core.replay.queueing.sparrow import probed_servers
from apps.testbed.core.replay.run import run
from tests.testbed.core.replay.cases import cluster, jobs, options
from tests.testbed.core.replay.queueing.replays import Watched, most_used, random_jobs

SAME = 4  # a seed with which two jobs of one probe draw the same of two servers


def test_a_job_starts_where_the_first_of_its_probes_finds_a_free_core() -> None:
    # two cores, and two probes of each job: the third job waits at both servers
    load = jobs([0.0, 1.0, 2.0], [300.0, 100.0, 10.0])
    result = run(cluster(1, 1), load, options(policy="sparrow"))
    assert result.started_s[:2].tolist() == [0.0, 1.0]
    assert result.ended_s[1] < result.ended_s[0]
    assert result.started_s[2] == result.ended_s[1]


def test_one_probe_binds_a_job_to_its_server_before_a_core_is_free() -> None:
    load = jobs([0.0, 1.0], [300.0, 300.0])
    watched = Watched(cluster(1, 1), load, "sparrow", seed=SAME, parameters={"probes": 1.0})
    assert list(watched.steps())
    first, second = watched.loop.records
    assert watched.grants[0][2] == watched.grants[1][2]
    assert second.started_s == first.ended_s  # though the other server was free


def test_a_server_serves_its_probes_in_the_order_in_which_they_came() -> None:
    load = jobs([0.0, 1.0, 2.0, 3.0], [50.0, 40.0, 30.0, 20.0])
    result = run(cluster(1), load, options(policy="sparrow"))
    assert result.started_s[1:].tolist() == result.ended_s[:-1].tolist()


def test_a_job_of_two_units_takes_the_second_as_soon_as_a_server_has_it() -> None:
    load = jobs([0.0, 1.0], [100.0, 1000.0], units=[1, 2])
    result = run(cluster(1, 1), load, options(policy="sparrow"))
    assert result.started_s[1] == 1.0
    assert result.whole_s[1] == result.ended_s[0]
    assert result.units.tolist() == [1, 2]
    alone = run(cluster(1), jobs([1.0], [1000.0]), options(policy="sparrow"))
    assert result.ended_s[1] < alone.ended_s[0]  # the second unit works


def test_a_probe_of_a_job_that_has_ended_is_dropped() -> None:
    load = jobs([0.0, 1.0, 2.0], [1000.0, 10.0, 10.0], units=[1, 2, 1])
    result = run(cluster(1, 1), load, options(policy="sparrow"))
    assert np.isnan(result.whole_s[1])
    assert result.units[1] == 1
    assert result.started_s[2] == result.ended_s[1]
    assert result.reason == ("", "", "")


def test_the_units_of_a_job_start_on_several_servers_at_once() -> None:
    result = run(cluster(1, 1, 1), jobs([0.0], [100.0], units=[3]), options(policy="sparrow"))
    assert (result.started_s[0], result.whole_s[0]) == (0.0, 0.0)
    assert result.units.tolist() == [3]


def test_a_job_that_no_server_can_hold_is_reported_and_blocks_nobody() -> None:
    load = jobs([0.0, 1.0], [10.0, 10.0], unit_memory_bytes=np.array([1e15, 0.0]))
    result = run(cluster(1), load, options(policy="sparrow"))
    assert result.reason[0].startswith("NoMatchingServer: ")
    assert result.reason[1] == ""
    assert result.refusals.tolist() == [1, 0]


def test_a_probe_waits_for_the_memory_of_its_server() -> None:
    # 4 GB a core: a unit of 6 GB takes the memory of the second core as well
    load = jobs([0.0, 1.0], [50.0, 10.0], unit_memory_bytes=np.array([6e9, 6e9]))
    result = run(cluster(2), load, options(policy="sparrow"))
    assert result.started_s[1] == result.ended_s[0]


def test_jobs_that_wait_at_the_end_of_a_replay_say_so() -> None:
    load = jobs([0.0, 1.0], [1000.0, 10.0])
    result = run(cluster(1), load, options(policy="sparrow", until_s=5.0))
    assert result.reason[0].startswith("Running: ")
    assert result.reason[1] == "NoFreeUnit: its probes wait in the queues of servers"


def test_probes_wait_for_the_repair_of_their_server() -> None:
    load = jobs([float(i) for i in range(30)], [400.0] * 30)
    failures = Failures(per_day=300.0, repair_s=200.0)
    result = run(cluster(1, 1), load, options(policy="sparrow", failures=failures))
    assert result.servers_failed > 0
    assert result.restarts.sum() > 0
    assert result.reason == ("",) * len(load)


def test_a_job_that_grew_teaches_no_allowance() -> None:
    load = jobs([0.0, 1.0], [100.0, 1000.0], units=[1, 2])
    watched = Watched(cluster(1, 1), load, "sparrow")
    told: list[bool] = []
    watched.loop.source.ended = (  # type: ignore[method-assign]
        lambda job, ran_s, *, is_whole: told.append(is_whole)
    )
    assert list(watched.steps())
    assert told == [True, False]


@pytest.mark.parametrize(
    "values",
    [{"agents": 2}, {"decision_s": 0.1}, {"admission": "fifo"}, {"weights": {"P": 1.0}}],
    ids=["agents", "decision_s", "admission", "weights"],
)
def test_options_without_effect_are_refused(values: dict[str, object]) -> None:
    (name,) = values
    chosen = replace(options(policy="sparrow"), **values)  # type: ignore[arg-type]
    with pytest.raises(ReplayError, match=f"sparrow has queues of its own.* use {name}"):
        run(cluster(1), jobs([0.0], [1.0]), chosen)


def test_parameters_are_checked() -> None:
    with pytest.raises(ReplayError, match=r"probes must be a number in 1 \.\. 32, not 0\.5"):
        run(cluster(1), jobs([0.0], [1.0]), options(policy="sparrow", parameters={"probes": 0.5}))
    with pytest.raises(ReplayError, match="sparrow has the parameters probes, not 'size'"):
        run(cluster(1), jobs([0.0], [1.0]), options(policy="sparrow", parameters={"size": 2}))


def test_the_probes_of_hand_computed_jobs() -> None:
    rng = np.random.default_rng(1)
    servers = np.array([3, 5, 8, 9])
    assert sorted(probed_servers(servers, 2, 2.0, rng).tolist()) == [3, 5, 8, 9]
    assert probed_servers(servers, 1, 2.0, rng).size == 2
    assert probed_servers(servers, 3, 1.1, rng).size == 4  # ceil(3.3)
    round_again = probed_servers(servers, 3, 2.0, rng).tolist()  # six probes on four servers
    assert sorted(round_again[:4]) == [3, 5, 8, 9]
    assert round_again[4:] == round_again[:2]


@given(
    servers=st.integers(1, 40),
    units=st.integers(1, 64),
    probes=st.floats(1.0, 8.0),
    seed=st.integers(0, 2**32),
)
def test_probes_are_spread_evenly_and_no_fewer_than_the_units(
    servers: int, units: int, probes: float, seed: int
) -> None:
    drawn = probed_servers(np.arange(servers), units, probes, np.random.default_rng(seed))
    counts = np.bincount(drawn, minlength=servers)
    assert drawn.size == int(np.ceil(units * probes)) >= units
    assert counts.max() - counts.min() <= 1


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1000), probes=st.sampled_from([1.0, 1.5, 2.0, 4.0]))
def test_no_core_is_taken_twice_no_job_is_lost_and_no_probe_waits_at_a_free_core(
    data: st.DataObject, seed: int, probes: float
) -> None:
    load = data.draw(random_jobs())
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    watched = Watched(cluster(*sizes), load, "sparrow", seed=seed, parameters={"probes": probes})
    for _ in watched.steps():
        # late binding: a job that still lacks units has no probe at a free core
        for queue, free in zip(watched.scheduler.queues, watched.free(), strict=True):
            assert free == 0 or not any(job.left for job in queue)
    assert all(np.isfinite(record.ended_s) for record in watched.loop.records)
    assert len(watched.loop.records) == len(load)
    assert not watched.scheduler.has_waiting
    assert watched.free() == sizes
    assert all(used <= size for used, size in zip(most_used(watched), sizes, strict=True))


@settings(max_examples=30, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_the_same_seed_gives_the_same_run(data: st.DataObject, seed: int) -> None:
    load = data.draw(random_jobs())
    runs = [Watched(cluster(2, 1, 3), load, "sparrow", seed=seed) for _ in range(2)]
    for watched in runs:
        assert list(watched.steps())
    assert runs[0].grants == runs[1].grants
