from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineEvent, EngineOrder, EventKind
from apps.emulation.core.truth import Phases, UniversalScaling, interference_factor
from tests.emulation.worlds import machines, truth


def new_engine(*units: int) -> Engine:
    return Engine(machines(*units), np.random.default_rng(0))


def approximately(value: float) -> Any:
    return pytest.approx(value)


def finished(at: float, key: str) -> EngineEvent:
    return EngineEvent(approximately(at), EventKind.FINISHED, key)


def test_a_job_alone_ends_after_its_work() -> None:
    engine = new_engine(4)
    engine.start([EngineOrder("a", truth(), [(0, 1)], work_s=100.0)], 5.0)
    assert engine.advance(104.9) == []
    assert engine.advance(1000.0) == [finished(105.0, "a")]
    assert engine.used_units.tolist() == [0]


def test_units_servers_and_curves_multiply() -> None:
    law_up = UniversalScaling(contention=0.1, coherency=0.0)
    law_out = UniversalScaling(contention=0.2, coherency=0.0)
    app = truth(scale_up=law_up, scale_out=law_out)
    engine = new_engine(4, 4)
    engine.start([EngineOrder("a", app, [(0, 4), (1, 2)], work_s=100.0)], 0.0)
    expected = (law_up.speed_up(4) + law_up.speed_up(2)) * law_out.efficiency(2)
    assert engine.speed("a") == pytest.approx(expected)


def test_waves_end_together_on_equal_units() -> None:
    engine = new_engine(4)
    engine.start([EngineOrder("a", truth(), [(0, 4)], work_s=60.0, tasks=6)], 0.0)
    # six tasks of 10 s on four units are two waves
    assert engine.advance(100.0) == [finished(20.0, "a")]


def test_neighbours_slow_each_other_by_the_formula() -> None:
    engine = new_engine(3)
    app = truth(tolerated=20.0, caused=60.0)
    engine.start(
        [EngineOrder("a", app, [(0, 1)], 100.0), EngineOrder("b", app, [(0, 1)], 100.0)], 0.0
    )
    expected = interference_factor(np.full(10, 30.0), np.full(10, 20.0))
    assert engine.speed("a") == pytest.approx(float(expected))


def test_a_job_does_not_interfere_with_itself() -> None:
    engine = new_engine(2)
    engine.start([EngineOrder("a", truth(tolerated=1.0, caused=90.0), [(0, 2)], 100.0)], 0.0)
    assert engine.speed("a") == pytest.approx(2.0)


def test_a_slow_server_slows_only_the_units_there() -> None:
    slow = replace(machines(2, 2), speed=np.array([1.0, 0.5]))
    engine = Engine(slow, np.random.default_rng(0))
    engine.start([EngineOrder("a", truth(), [(0, 1), (1, 1)], 100.0)], 0.0)
    assert engine.speed("a") == pytest.approx(1.5)


def test_the_end_of_a_neighbour_restores_the_speed() -> None:
    engine = new_engine(2)
    app = truth(tolerated=50.0, caused=80.0)
    slow = float(interference_factor(np.full(10, 80.0), np.full(10, 50.0)))
    engine.start(
        [EngineOrder("a", app, [(0, 1)], 100.0), EngineOrder("b", app, [(0, 1)], 10.0)], 0.0
    )
    b_end = 10.0 / slow
    assert engine.advance(10_000.0) == [finished(b_end, "b"), finished(b_end + 90.0, "a")]


def test_cancelling_returns_the_progress_and_frees_the_units() -> None:
    engine = new_engine(2)
    engine.start([EngineOrder("a", truth(), [(0, 2)], work_s=100.0)], 0.0)
    assert engine.cancel("a", 10.0) == pytest.approx(0.2)
    assert engine.used_units.tolist() == [0]
    assert engine.advance(1000.0) == []


def test_a_resumed_job_does_only_the_remaining_work() -> None:
    engine = new_engine(2)
    engine.start([EngineOrder("a", truth(), [(0, 1)], work_s=100.0, done_share=0.75)], 50.0)
    assert engine.jobs().progress == pytest.approx([0.75])
    assert engine.advance(1000.0) == [finished(75.0, "a")]


def phased() -> Phases:
    scores = np.full((2, 10), 50.0)
    return Phases(np.array([0.0, 0.5]), np.array([1.0, 0.5]), scores, scores, 100.0)


def test_phases_of_work_begin_at_their_share_of_it() -> None:
    engine = new_engine(1)
    engine.start([EngineOrder("a", truth(phases=phased()), [(0, 1)], work_s=100.0)], 0.0)
    assert engine.advance(1000.0) == [
        EngineEvent(approximately(50.0), EventKind.PHASE, "a", 1),
        finished(150.0, "a"),
    ]


def test_phases_of_a_service_repeat_with_time() -> None:
    engine = new_engine(1)
    app = truth(phases=phased(), kind="latency_critical")
    engine.start([EngineOrder("a", app, [(0, 1)], np.inf, duration_s=210.0)], 0.0)
    events = engine.advance(1000.0)
    assert [(e.at_s, e.kind, e.phase) for e in events] == [
        (50.0, EventKind.PHASE, 1),
        (100.0, EventKind.PHASE, 0),
        (150.0, EventKind.PHASE, 1),
        (200.0, EventKind.PHASE, 0),
        (210.0, EventKind.FINISHED, 0),
    ]


def test_a_resumed_job_is_in_its_old_phase() -> None:
    engine = new_engine(1)
    engine.start([EngineOrder("a", truth(phases=phased()), [(0, 1)], 100.0, done_share=0.6)], 0.0)
    assert engine.speed("a") == pytest.approx(0.5)


def test_a_service_without_end_runs_until_cancelled() -> None:
    engine = new_engine(1)
    engine.start([EngineOrder("a", truth(kind="latency_critical"), [(0, 1)], np.inf)], 0.0)
    assert engine.next_event_s == np.inf
    assert engine.advance(1e9) == []
    assert np.isnan(engine.jobs().progress).all()


def test_a_service_reports_its_load_and_its_latency() -> None:
    engine = new_engine(2)
    app = truth(kind="latency_critical", metric_per_s=10.0)
    engine.start([EngineOrder("a", app, [(0, 2)], np.inf, load=12.0)], 0.0)
    readings = engine.jobs()
    assert readings.metric == pytest.approx([12.0], rel=0.1)
    assert 0.3 < readings.latency_s[0] < 2.0


def test_a_service_with_too_few_units_answers_its_share_of_the_queries() -> None:
    engine = new_engine(2)
    app = truth(kind="latency_critical", metric_per_s=10.0)
    engine.start([EngineOrder("a", app, [(0, 2)], np.inf, load=40.0)], 0.0)
    readings = engine.jobs()
    assert readings.metric == pytest.approx([20.0], rel=0.1)
    assert readings.offered_qps.tolist() == [40.0]


def test_a_service_with_few_queries_reports_that_few_were_offered() -> None:
    engine = new_engine(2)
    app = truth(kind="latency_critical", metric_per_s=10.0)
    app = replace(app, traffic=replace(app.traffic, swing=0.5, peak_s=0.0))
    engine.start([EngineOrder("a", app, [(0, 2)], np.inf, load=12.0)], 0.0)
    engine.advance(43_200.0)  # the valley of the day
    readings = engine.jobs()
    assert readings.offered_qps == pytest.approx([12.0 * 0.5 / 1.5])
    assert readings.metric == pytest.approx(readings.offered_qps)


def test_a_stricter_percentile_is_a_longer_latency() -> None:
    app = truth(kind="latency_critical", metric_per_s=10.0)
    engine = new_engine(2)
    engine.start([EngineOrder("a", app, [(0, 1)], np.inf, load=5.0, percentile=90.0)], 0.0)
    engine.start([EngineOrder("b", app, [(0, 1)], np.inf, load=5.0, percentile=99.0)], 0.0)
    readings = engine.jobs()
    assert readings.latency_s[1] == pytest.approx(2.0 * readings.latency_s[0], rel=0.2)


def test_speed_is_reported_as_progress_per_second() -> None:
    engine = new_engine(2)
    engine.start([EngineOrder("a", truth(), [(0, 2)], work_s=100.0)], 0.0)
    assert engine.jobs().progress_per_s == pytest.approx([0.02], rel=0.1)


def test_ties_end_in_the_order_they_were_started() -> None:
    engine = new_engine(4)
    engine.start([EngineOrder(key, truth(), [(0, 1)], 10.0) for key in "cab"], 0.0)
    assert [event.key for event in engine.advance(10.0)] == ["c", "a", "b"]


def test_usage_is_what_the_parts_use() -> None:
    engine = new_engine(4, 4)
    engine.start([EngineOrder("a", truth(), [(0, 2)], 1e6)], 0.0)
    readings = engine.servers()
    assert readings.cpu_share == pytest.approx([0.41, 0.01], rel=0.2)
    assert readings.memory_share == pytest.approx([0.25, 0.0], rel=0.1)
    assert readings.network_share == pytest.approx([0.05, 0.0], rel=0.1)
    assert readings.watts == pytest.approx(10.0 + 10.0 * readings.cpu_share)


def test_the_tables_grow_beyond_the_first_slots() -> None:
    engine = new_engine(3000)
    engine.start([EngineOrder(i, truth(), [(0, 1)], 10.0 + i) for i in range(3000)], 0.0)
    assert len(engine.advance(1e6)) == 3000


@pytest.mark.parametrize(
    ("parts", "message"),
    [([(0, 3)], "2 free units"), ([], "at least one"), ([(0, 1), (0, 1)], "each once")],
)
def test_refuses_an_order_that_does_not_fit(parts: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        new_engine(2).start([EngineOrder("a", truth(), parts, 1.0)], 0.0)


def test_refuses_to_go_back_in_time() -> None:
    engine = new_engine(2)
    engine.advance(10.0)
    with pytest.raises(ValueError, match="the clock cannot go from"):
        engine.advance(9.0)


def test_a_service_answers_later_next_to_others_than_its_queue_explains() -> None:
    latencies = []
    for power in (0.0, 2.0):
        app = replace(
            truth(tolerated=1.0, kind="latency_critical", metric_per_s=1000.0), latency_power=power
        )
        engine = new_engine(3)
        engine.start([EngineOrder("a", app, [(0, 2)], np.inf, load=100.0)], 0.0)
        alone = engine.jobs().latency_s[0]
        engine.start([EngineOrder("b", truth(caused=30.0), [(0, 1)], 1e6)], 0.0)
        readings = engine.jobs(["a"])
        left = engine.speed("a") / 2.0
        latencies.append((alone, readings.latency_s[0]))
    assert left < 0.8
    (alone, queue), (same, late) = latencies
    assert same == pytest.approx(alone, rel=0.15)  # four readings with a noise of 2 %
    assert late == pytest.approx(queue / left**2, rel=0.15)
