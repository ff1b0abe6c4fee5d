import numpy as np
import pytest

from apps.emulation.core.queueing import waiting_share
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Request
from apps.testbed.core.demo_cluster import DemoCluster, _topology, demo_cluster, exact_request
from apps.testbed.core.offline import AgentSettings, JobArrival, run_offline
from apps.testbed.core.replay.model import Admission
from tests.emulation.worlds import all_platforms, machines, truth


def plain_world(*units: int) -> DemoCluster:
    """Servers of the highest-end platform with these units."""
    count = np.array(units, dtype=np.int64)
    facts = machines(*units, platforms=all_platforms())
    capacity = np.column_stack((facts.memory_bytes, facts.network_bps, facts.storage_bytes))
    return DemoCluster(_topology(np.zeros(len(units), np.int64), count, capacity), facts, seed=1)


def arrival(at_s: float, job: str, work_s: float, units: int = 1) -> JobArrival:
    app = truth()
    request = Request(job, units, app.caused, app.tolerated, gang=True)
    return JobArrival(at_s, request, app, work_s)


def test_jobs_run_wait_in_line_and_end() -> None:
    arrivals = [
        arrival(0.0, "a", 20.0, units=2),
        arrival(1.0, "b", 20.0, units=2),
        arrival(2.0, "c", 5.0),
    ]
    report = run_offline(plain_world(2), arrivals, make("random"), seed=1)
    arrived, started, ended = report.times()
    assert arrived.tolist() == [0.0, 1.0, 2.0]
    assert started == pytest.approx([0.0, 10.0, 20.0])
    assert ended == pytest.approx([10.0, 20.0, 25.0])


def test_every_decision_is_remembered() -> None:
    report = run_offline(plain_world(2), [arrival(0.0, "a", 1.0)], make("tarcil"), seed=1)
    assert [(d.placed.job, d.is_committed, d.used_share) for d in report.decisions] == [
        ("a", True, 0.0)
    ]


def demo_arrivals(world: DemoCluster, jobs: int) -> list[JobArrival]:
    rng = np.random.default_rng(3)
    app = truth(tolerated=40.0, caused=60.0)
    at = np.cumsum(rng.exponential(0.5, jobs))
    work = rng.exponential(60.0, jobs)
    return [
        JobArrival(float(at[i]), exact_request(app, str(i)), app, float(work[i]))
        for i in range(jobs)
    ]


def times(seed: int, settings: AgentSettings) -> tuple[Floats, ...]:
    world = plain_world(8, 8, 4, 16, 32)
    arrivals = demo_arrivals(world, 300)
    return run_offline(world, arrivals, make("tarcil"), seed=seed, settings=settings).times()


def test_the_same_seed_gives_the_same_run() -> None:
    settings = AgentSettings(agents=3, sync_s=5.0)
    assert np.array_equal(times(7, settings), times(7, settings))


def test_another_seed_gives_another_run() -> None:
    assert not np.array_equal(times(7, AgentSettings()), times(8, AgentSettings()))


def test_stale_agents_lose_commits_and_still_place_every_job() -> None:
    world = plain_world(8, 8, 4, 16, 32)
    settings = AgentSettings(agents=4, sync_s=60.0)
    arrivals = demo_arrivals(world, 300)
    report = run_offline(world, arrivals, make("tarcil"), seed=7, settings=settings)
    assert sum(job.conflicts for job in report.jobs) > 0
    assert not np.isnan(report.times()[2]).any()


def test_an_agent_that_reads_before_every_decision_never_loses() -> None:
    world = plain_world(8, 8, 4, 16, 32)
    settings = AgentSettings(agents=4, sync_s=0.0)
    arrivals = demo_arrivals(world, 300)
    report = run_offline(world, arrivals, make("tarcil"), seed=7, settings=settings)
    assert sum(job.conflicts for job in report.jobs) == 0


def test_mean_wait_is_that_of_m_m_c() -> None:
    units, utilisation, runs, jobs = 4, 0.75, 12, 1_500
    offered = units * utilisation
    expected = float(waiting_share(np.array([units]), np.array([offered]))[0]) / (units - offered)
    means = np.zeros(runs)
    for run, seed in enumerate(np.random.SeedSequence(5).spawn(runs)):
        rng = np.random.default_rng(seed)
        at = np.cumsum(rng.exponential(1.0 / offered, jobs))
        work = rng.exponential(1.0, jobs)
        arrivals = [arrival(float(at[i]), str(i), float(work[i])) for i in range(jobs)]
        report = run_offline(plain_world(2, 2), arrivals, make("random"), seed=run)
        arrived, started, _ = report.times()
        means[run] = (started - arrived)[200:].mean()
    # four standard errors of the mean, estimated from the 12 independent runs
    assert means.mean() == pytest.approx(expected, abs=4.0 * means.std(ddof=1) / np.sqrt(runs))


def test_a_demo_world_is_the_same_cluster_to_scheduler_and_engine() -> None:
    world = demo_cluster(100, seed=4)
    assert np.array_equal(world.topology.server_units, world.machines.units)
    assert np.array_equal(world.topology.server_platform, world.machines.platform)
    assert np.array_equal(world.topology.server_capacity[:, 0], world.machines.memory_bytes)
    assert world.topology.platform_name == world.machines.platforms.names


def contended(first_work_s: float = 1e4, second_work_s: float = 1e3) -> list[JobArrival]:
    """Two jobs, the second one a second later, that slow each other down."""
    app = truth(tolerated=10.0, caused=90.0)
    works = (first_work_s, second_work_s)
    return [
        JobArrival(float(i), Request(str(i), 1, app.caused, app.tolerated), app, work)
        for i, work in enumerate(works)
    ]


def starts(jobs: list[JobArrival], patience_s: float, order: Admission) -> list[float]:
    settings = AgentSettings(admission=order, patience_s=patience_s)
    report = run_offline(plain_world(2), jobs, make("expected"), seed=1, settings=settings)
    return report.times()[1].tolist()


def test_a_job_takes_any_unit_when_its_patience_ends() -> None:
    """No unit is freed meanwhile: the end of its patience is what lets it start."""
    jobs = contended()
    assert starts(jobs, 300.0, Admission.SHAPES) == pytest.approx([0.0, 301.0])
    assert starts(jobs, 0.0, Admission.SHAPES) == pytest.approx([0.0, 1.0])


def test_a_job_waits_for_better_units_no_longer_than_it_runs() -> None:
    jobs = contended(second_work_s=100.0)
    assert starts(jobs, 300.0, Admission.SHAPES) == pytest.approx([0.0, 101.0])


def test_a_job_starts_earlier_if_its_neighbour_ends() -> None:
    jobs = contended(first_work_s=50.0)
    assert starts(jobs, 300.0, Admission.SHAPES) == pytest.approx([0.0, 50.0])


def test_in_order_of_arrival_no_job_waits_for_better_units() -> None:
    with pytest.raises(ValueError, match="patience"):
        AgentSettings(patience_s=300.0)
    with pytest.raises(ValueError, match="patience"):
        AgentSettings(admission=Admission.SHAPES, patience_s=-1.0)


def test_a_job_of_several_units_at_once_does_not_wait() -> None:
    jobs = contended()
    wide = JobArrival(1.0, arrival(1.0, "1", 1.0, units=2).request, jobs[1].truth, 100.0)
    settings = AgentSettings(admission=Admission.SHAPES, patience_s=300.0)
    world = plain_world(3)
    report = run_offline(world, [jobs[0], wide], make("expected"), seed=1, settings=settings)
    assert report.times()[1].tolist() == pytest.approx([0.0, 1.0])


def most_examined(max_sample: int) -> tuple[int, int]:
    """Fill 37 of 40 units by `tarcil`; return the candidates of the first job, and the most."""
    app = truth()
    jobs = [
        JobArrival(float(i), Request(str(i), 1, app.caused, app.tolerated), app, 1e4)
        for i in range(37)
    ]
    settings = AgentSettings(max_sample=max_sample)
    report = run_offline(plain_world(*[4] * 10), jobs, make("tarcil"), seed=1, settings=settings)
    examined = [decision.placed.examined for decision in report.decisions]
    return examined[0], max(examined)


def test_the_sample_of_a_policy_of_tarcil_grows_with_the_load_if_asked() -> None:
    assert most_examined(max_sample=0) == (8, 8)
    first, most = most_examined(max_sample=32)
    assert first == 8
    assert most > 16
    assert most_examined(max_sample=12) == (8, 12)
