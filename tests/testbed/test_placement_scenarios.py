"""Container scenarios: cost of runs, data visible to policies, and comparison of policies."""

import ast
import dataclasses
import gzip
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder
from apps.emulation.core.truth import Truth
from apps.placement.core.monitoring.classes import LocalityLimits
from apps.placement.core.problem.instance import Communication
from apps.scheduling.core.registry import make
from apps.testbed.core import policies, solver_policy
from apps.testbed.core.container_replay import (
    ContainerJob,
    ContainerResult,
    run_containers,
)
from apps.testbed.core.facebook import containers_for, jobs_of_day
from apps.testbed.core.formats import parse_trace
from apps.testbed.core.monitor import (
    LOUD_BYTES_PER_S,
    UNKNOWN,
    Monitor,
    MonitoredJob,
    equal_machines,
    one_node,
    profile_programs,
    train_thresholds,
)
from apps.testbed.core.policies import (
    ContainerPolicy,
    JobMigration,
    NodeInventory,
    RegisteredPlacer,
    VisibleCluster,
    VisibleJob,
)
from apps.testbed.core.programs import HADOOP, HPC, MIX, NETWORK, Program, taz
from apps.testbed.core.scenarios import POLICIES, SCENARIOS, run_scenario
from apps.testbed.core.solver_policy import SolverPolicy, is_movable
from apps.testbed.core.traces import SwimTrace

FB2009 = Path(__file__).parents[3] / "shared/data/swim_facebook/fb2009_day0.tsv.gz"
WEIGHTS = {"P": 0.22, "D": 1.0, "C": 1.0}
STALL_S = 20.0
EVERY_PROGRAM = [*HPC.values(), *HADOOP.values(), *MIX]
TAZES = [program for program in EVERY_PROGRAM if program.slowdown > 1.1]
TURTLES = [program for program in EVERY_PROGRAM if program.slowdown == 1.0]


def nodes(count: int, racks: int = 1) -> Any:
    return equal_machines(np.repeat(np.arange(racks), count // racks), 2, watts=(100.0, 200.0))


def job(name: str, program: Program, size: int, work_s: float, at_s: float = 0.0) -> ContainerJob:
    return ContainerJob(name, at_s, program, size, work_s, nominal_s=work_s)


def watching(seed: int = 0) -> Monitor:
    rng = np.random.default_rng(seed)
    return Monitor(train_thresholds(2, rng), LocalityLimits(2, 8, LOUD_BYTES_PER_S), 2)


def knowing(*programs: Program) -> Monitor:
    monitor = watching()
    profile_programs(monitor, [(program, 2) for program in programs], np.random.default_rng(1), 2)
    return monitor


def careful(monitor: Monitor, *, moves: bool) -> SolverPolicy:
    return SolverPolicy("careful", monitor, WEIGHTS, stall_s=STALL_S, moves=moves)


def run(
    placer: ContainerPolicy, jobs: Sequence[ContainerJob], count: int = 4, racks: int = 1
) -> ContainerResult:
    return run_containers(nodes(count, racks), placer, jobs, stall_s=STALL_S, seed=3)


SLOT_RR = RegisteredPlacer("SlotRR", make("slot_rr"))
NODE_RR = RegisteredPlacer("NodeRR", make("node_rr"))


# ---- programs ----


def speed_beside(program: Program, other: Program) -> float:
    engine = Engine(one_node(2), np.random.default_rng(0))
    orders = [
        EngineOrder(i, each.truth(), [(0, 1)], work_s=100.0)
        for i, each in enumerate((program, other))
    ]
    engine.start(orders, 0.0)
    return engine.speed(0)


@pytest.mark.parametrize("program", TAZES, ids=lambda program: program.name)
def test_a_taz_slows_down_beside_its_like_as_it_says(program: Program) -> None:
    assert 1.0 / speed_beside(program, program) == pytest.approx(program.slowdown, rel=0.01)
    engine = Engine(one_node(2), np.random.default_rng(0))
    engine.start([EngineOrder("both", program.truth(), [(0, 2)], work_s=100.0)], 0.0)
    assert 2.0 / engine.speed("both") == pytest.approx(program.slowdown, rel=0.01)


@pytest.mark.parametrize("other", TAZES, ids=lambda program: program.name)
def test_a_taz_loses_more_than_a_tenth_beside_any_taz(other: Program) -> None:
    assert all(speed_beside(program, other) <= 0.9 for program in TAZES)


@pytest.mark.parametrize("turtle", TURTLES, ids=lambda program: program.name)
def test_turtles_lose_little_and_cost_little(turtle: Program) -> None:
    assert all(speed_beside(turtle, other) > 0.95 for other in EVERY_PROGRAM)
    assert all(speed_beside(program, turtle) > 0.9 for program in TAZES)


def test_a_job_that_talks_much_is_slower_on_two_nodes_though_nothing_is_beside_it() -> None:
    engine = Engine(nodes(4), np.random.default_rng(0))
    truth = HPC["E"].truth()
    engine.start([EngineOrder("together", truth, [(0, 2)], work_s=100.0)], 0.0)
    engine.start([EngineOrder("apart", truth, [(1, 1), (2, 1)], work_s=100.0)], 0.0)
    assert engine.speed("together") / engine.speed("apart") == pytest.approx(1.6)


# ---- the loop ----


def test_a_job_alone_takes_its_work() -> None:
    report = run(SLOT_RR, [job("a", HPC["D"], 1, 500.0)])
    assert report.run_s().tolist() == pytest.approx([500.0])


def test_empty_nodes_cost_no_energy() -> None:
    report = run(SLOT_RR, [job("a", HPC["D"], 1, 1000.0)])
    assert report.joules == pytest.approx(1000.0 * 150.0)
    assert report.idle_joules == pytest.approx(1000.0 * 3 * 100.0)


def test_energy_of_the_jobs_is_that_of_the_nodes() -> None:
    jobs = [job("a", HPC["A"], 3, 900.0), job("b", HPC["D"], 2, 500.0, at_s=100.0)]
    report = run(careful(watching(), moves=True), jobs)
    assert report.job_joules().sum() == pytest.approx(report.joules)
    assert (report.job_joules() > 0.0).all()


def test_two_on_a_node_share_its_idle_watts() -> None:
    report = run(SLOT_RR, [job("a", HPC["D"], 1, 500.0), job("b", HPC["G"], 1, 1000.0)], count=1)
    ends = [outcome.ended_s for outcome in report.jobs]
    assert ends[0] < ends[1]
    assert report.jobs[0].joules == pytest.approx(ends[0] * 100.0)
    assert report.jobs[1].joules == pytest.approx(ends[0] * 100.0 + (ends[1] - ends[0]) * 150.0)


def test_jobs_wait_in_the_order_they_came() -> None:
    jobs = [
        job("a", HPC["D"], 2, 100.0),
        job("b", HPC["D"], 2, 100.0, at_s=10.0),
        job("c", HPC["D"], 1, 100.0, at_s=20.0),
    ]
    started = [outcome.started_s for outcome in run(SLOT_RR, jobs, count=1).jobs]
    assert started[0] == 0.0
    assert started[1] == pytest.approx(100.0, rel=0.05)
    assert started[2] > started[1]


def test_a_job_larger_than_the_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="job a does not fit on the empty cluster"):
        run(SLOT_RR, [job("a", HPC["D"], 9, 100.0)])


class Mover(RegisteredPlacer):
    """SlotRR that once migrates containers of the first job to these nodes."""

    def __init__(self, *nodes: int) -> None:
        super().__init__("mover", make("slot_rr"), watching())
        self.nodes = list(nodes)

    def rearrange(self, state: VisibleCluster) -> list[JobMigration]:
        key, running = next(iter(state.running.items()))
        steps = [
            JobMigration(key, node, to)
            for node, to in zip(running.nodes, self.nodes, strict=False)
        ]
        self.nodes = []
        return steps


def test_a_migration_costs_its_stall_and_holds_both_nodes() -> None:
    report = run(Mover(3), [job("a", HPC["D"], 1, 1000.0)])
    assert report.run_s().tolist() == pytest.approx([1000.0 + STALL_S])
    assert report.jobs[0].moves == 1
    # one unit all the time, and a second one during the stall
    assert report.joules == pytest.approx((1000.0 + 2.0 * STALL_S) * 150.0)


def test_containers_of_a_job_move_one_after_the_other_and_stop_it_each_time() -> None:
    report = run(Mover(3, 3), [job("a", HPC["D"], 2, 1000.0)])
    assert report.run_s().tolist() == pytest.approx([1000.0 + 2.0 * STALL_S])
    assert report.jobs[0].moves == 2
    assert report.job_joules().sum() == pytest.approx(report.joules)


def test_a_move_to_where_there_will_be_no_room_is_dropped() -> None:
    jobs = [job("a", HPC["D"], 1, 1000.0), job("b", HPC["D"], 3, 2000.0)]
    report = run(Mover(1), jobs)
    assert [outcome.moves for outcome in report.jobs] == [0, 0]


def test_tazes_apart_are_faster() -> None:
    jobs = [job("a", HPC["A"], 2, 1000.0), job("b", HPC["B"], 2, 1000.0)]
    packed = run(SLOT_RR, jobs).run_s()
    apart = run(careful(knowing(HPC["A"], HPC["B"]), moves=False), jobs).run_s()
    assert packed == pytest.approx([1500.0, 1350.0])
    assert apart == pytest.approx([1000.0, 1000.0], rel=0.01)


def test_what_is_not_known_is_learnt_from_the_monitors_and_moved() -> None:
    jobs = [job("a", HPC["A"], 2, 10_000.0)]
    still = run(careful(watching(), moves=False), jobs)
    moved = run(careful(watching(), moves=True), jobs)
    assert still.run_s()[0] == pytest.approx(15_000.0)
    assert moved.jobs[0].moves == 1
    # they share the node for the first minute
    assert moved.run_s()[0] == pytest.approx(10_000.0 + 60.0 / 3.0 + STALL_S, abs=1.0)


@pytest.mark.parametrize("work_s", [290.0, 600.0])
def test_jobs_that_are_short_or_end_soon_are_left_where_they_are(work_s: float) -> None:
    report = run(careful(watching(), moves=True), [job("a", HPC["A"], 2, work_s / 1.5)])
    assert report.jobs[0].moves == 0
    assert report.run_s()[0] == pytest.approx(work_s)


@pytest.mark.parametrize(
    ("nominal_s", "ran_s", "left_s", "may_move"),
    [
        (400.0, 60.0, 900.0, True),
        (200.0, 60.0, 900.0, False),
        (200.0, 300.0, 900.0, True),
        (9000.0, 300.0, 500.0, False),
        (9000.0, 300.0, float("inf"), True),
    ],
)
def test_which_jobs_may_move(
    nominal_s: float, ran_s: float, left_s: float, may_move: bool
) -> None:
    visible = VisibleJob(MonitoredJob("a", "A", 2), nominal_s, started_s=0.0, nodes=[0, 0])
    now = dataclasses.replace(state([2]), now=ran_s)
    assert is_movable(now, visible, dataclasses.replace(UNKNOWN, left_s=left_s)) == may_move


def test_what_talks_much_is_gathered() -> None:
    jobs = [job("y", HADOOP["Y"], 6, 10_000.0, at_s=10.0)]
    before = [job(f"d{i}", HPC["D"], 1, 20_000.0) for i in range(8)]
    slow = run(NODE_RR, before + jobs, count=8, racks=2)
    fast = run(careful(knowing(HADOOP["Y"], HPC["D"]), moves=True), before + jobs, 8, 2)
    assert fast.run_s()[-1] < 0.85 * slow.run_s()[-1]


@pytest.mark.parametrize("placer", list(POLICIES))
def test_the_same_seed_gives_the_same_report(placer: str) -> None:
    small = dataclasses.replace(
        SCENARIOS["parapluie"],
        day=lambda _trace, _seed: [
            job("A", HPC["A"], 3, 1200.0),
            job("D", HPC["D"], 3, 900.0),
            job("E", HPC["E"], 2, 900.0, at_s=300.0),
        ],
        nodes_per_rack=5,
    )
    first, second = (run_scenario(small, placer, seed=5) for _ in range(2))
    assert [day.run_s().tolist() for day in first] == [day.run_s().tolist() for day in second]
    assert [day.joules for day in first] == [day.joules for day in second]


# ---- data visible to policies ----


class Spy(RegisteredPlacer):
    """SlotRR that records its inputs."""

    def __init__(self) -> None:
        super().__init__("spy", make("slot_rr"), watching())
        self.shown: list[object] = []

    def place(self, state: VisibleCluster, jobs: Sequence[VisibleJob]) -> list[list[int]]:
        self.shown += [state, *jobs]
        return super().place(state, jobs)

    def rearrange(self, state: VisibleCluster) -> list[JobMigration]:
        assert self.monitor is not None
        self.shown += [state, *(self.monitor.of(j.monitored) for j in state.running.values())]
        return []


def parts_of(value: object) -> list[object]:
    """The value and everything that can be reached from it."""
    inside: list[object] = []
    if dataclasses.is_dataclass(value):
        inside = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, dict):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple):
        inside = list(value)
    return [value, *(part for each in inside for part in parts_of(each))]


def test_policies_are_shown_no_truth() -> None:
    spy = Spy()
    run(spy, [job("a", HPC["A"], 2, 300.0), job("b", HPC["D"], 1, 300.0, at_s=70.0)])
    parts = [part for shown in spy.shown for part in parts_of(shown)]
    assert len(parts) > 50
    assert not [
        part for part in parts if isinstance(part, Program | Truth | Engine | ContainerJob)
    ]


@pytest.mark.parametrize("module", [policies, solver_policy], ids=["policies", "solver_policy"])
def test_the_modules_of_the_policies_import_no_truth(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    imported = {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
    }
    assert "apps.testbed.core.monitor" in imported
    assert not [name for name in imported if ".emulation" in name or name.endswith("programs")]


# ---- estimates ----


@pytest.mark.parametrize("program", EVERY_PROGRAM, ids=lambda program: program.name)
def test_classes_learnt_from_noisy_readings_are_the_programs_own(program: Program) -> None:
    estimate = knowing(program).of(MonitoredJob("new", program.name, 2))
    assert estimate.is_taz == (program.slowdown > 1.1)
    assert (estimate.communication == Communication.NODE) == (program.traffic_bps > 2e7)


def test_a_program_never_seen_is_unknown() -> None:
    assert watching().of(MonitoredJob("new", "?", 2)) == UNKNOWN


def test_a_larger_job_of_a_program_wants_a_larger_place() -> None:
    monitor = knowing(HADOOP["Y"])
    classes = [
        monitor.of(MonitoredJob(f"new {size}", "Y", size)).communication
        for size in (1, 2, 3, 8, 9)
    ]
    assert classes == [
        Communication.CLUSTER,
        Communication.NODE,
        Communication.RACK,
        Communication.RACK,
        Communication.CLUSTER,
    ]


# ---- policies ----


def state(held: list[int], running: dict[str, VisibleJob] | None = None) -> VisibleCluster:
    n = len(held)
    site = NodeInventory(
        np.zeros(n, dtype=np.int64), np.full(n, 2), np.full(n, 100.0), np.full(n, 200.0)
    )
    return VisibleCluster(site, 0.0, np.array(held), running or {})


def packing(monitor: Monitor) -> RegisteredPlacer:
    return RegisteredPlacer("Dot-Product", make("dot_product"), monitor)


def coming(size: int, program: str = "?") -> VisibleJob:
    return VisibleJob(MonitoredJob(f"new {program} {size}", program, size), 100.0)


def test_slot_by_slot_fills_nodes_and_node_by_node_fills_levels() -> None:
    held = state([1, 0, 2, 0])
    assert SLOT_RR.place(held, [coming(3), coming(2)]) == [[0, 1, 1], [3, 3]]
    assert NODE_RR.place(held, [coming(3), coming(2)]) == [[1, 3, 0], [1, 3]]


def test_dot_product_fills_open_nodes_before_it_opens_one() -> None:
    monitor = knowing(HPC["A"])
    running = {"a": VisibleJob(MonitoredJob("a", "A", 1), 100.0, 0.0, [2])}
    assert packing(monitor).place(state([0, 0, 1, 0], running), [coming(2, "A")]) == [[2, 0]]


def test_dot_product_evens_out_what_is_used() -> None:
    by_memory, by_network = HPC["A"], taz("net", NETWORK, 1.5)
    monitor = knowing(by_memory, by_network)
    running = {
        "a": VisibleJob(MonitoredJob("a", "A", 1), 100.0, 0.0, [0]),
        "n": VisibleJob(MonitoredJob("n", "net", 1), 100.0, 0.0, [1]),
    }
    held = state([1, 1, 0], running)
    assert packing(monitor).place(held, [coming(1, "A")]) == [[1]]
    assert packing(monitor).place(held, [coming(1, "net")]) == [[0]]


# ---- days of Facebook ----


@pytest.mark.parametrize(
    ("tasks", "containers"),
    [(1, 1), (4, 1), (5, 2), (64, 16), (10_000, 16), (50_000, 44), (634_110, 128)],
)
def test_containers_of_a_job(tasks: int, containers: int) -> None:
    assert containers_for(np.array([tasks])).tolist() == [containers]


def first_jobs(count: int) -> SwimTrace:
    if not FB2009.exists():
        pytest.skip("the Facebook trace is not here (fb2009_day0.tsv.gz of SWIM)")
    with gzip.open(FB2009, "rt", encoding="utf-8") as lines:
        trace = parse_trace(lines, path=FB2009.name, name="fb2009")
    assert isinstance(trace, SwimTrace)
    columns = ("submit_s", "input_bytes", "shuffle_bytes", "output_bytes")
    return dataclasses.replace(trace, **{name: getattr(trace, name)[:count] for name in columns})


@pytest.mark.parametrize("placer", list(POLICIES))
def test_part_of_a_facebook_day_runs_to_its_end(placer: str) -> None:
    trace = first_jobs(60)
    small = dataclasses.replace(SCENARIOS["facebook600"], racks=2, nodes_per_rack=10)
    report = run_scenario(small, placer, seed=1, trace=trace)[-1]
    jobs = jobs_of_day(trace, np.random.default_rng(1))
    assert [outcome.job for outcome in report.jobs] == jobs
    assert (report.run_s() >= 0.999 * np.array([each.work_s for each in jobs])).all()
    assert report.job_joules().sum() == pytest.approx(report.joules)


def test_a_facebook_day_needs_its_trace() -> None:
    with pytest.raises(ValueError, match="needs its trace"):
        run_scenario(SCENARIOS["facebook600"], "SlotRR", seed=1)
