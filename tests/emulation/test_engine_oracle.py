"""The compiled engine against the plain one, event by event, and conservation of work."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, EventKind
from tests.emulation.plain_engine import PlainEngine
from tests.emulation.worlds import all_platforms, machines

CLUSTER = machines(8, 4, 6, 2, 5, platforms=all_platforms(), rack=[0, 0, 1, 1, 2])
TRUTHS = [
    replace(
        application_truth(seed, f"oracle-{seed}", KINDS[seed % 4], all_platforms()),
        rack_loss=0.2 * (seed % 3 == 0),
        is_in_step=seed % 5 == 0,
        task_spread=0.4 * (seed % 2),
    )
    for seed in range(24)
]


def drawn_order(key: int, used: np.ndarray, rng: np.random.Generator) -> EngineOrder | None:
    """An order that fits, on one to three servers; None if the cluster is full."""
    free = CLUSTER.units - used
    room = np.flatnonzero(free)
    if not room.size:
        return None
    servers = rng.choice(room, size=min(room.size, int(rng.integers(1, 4))), replace=False)
    parts = [(int(s), int(rng.integers(1, free[s] + 1))) for s in servers]
    is_service = rng.random() < 0.2
    return EngineOrder(
        key,
        TRUTHS[int(rng.integers(len(TRUTHS)))],
        parts,
        work_s=np.inf if is_service else float(rng.exponential(300.0)) + 1.0,
        tasks=int(rng.integers(1, 40)) if rng.random() < 0.5 else None,
        duration_s=float(rng.uniform(20.0, 9000.0)) if is_service or rng.random() < 0.2 else None,
        task_seed=key,
    )


@pytest.mark.parametrize("seed", range(8))
def test_every_event_is_that_of_the_plain_engine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine, plain = Engine(CLUSTER, np.random.default_rng(0)), PlainEngine(CLUSTER)
    now, phases = 0.0, 0
    for key in range(60):
        order = drawn_order(key, engine.used_units, rng)
        if order is not None:
            engine.start([order], now)
            plain.start([order], now)
        now += float(rng.exponential(40.0))
        events, expected = engine.advance(now), plain.advance(now)
        phases += sum(event.kind is EventKind.PHASE for event in events)
        assert [(e.kind.value, e.key, e.phase) for e in events] == [e[1:] for e in expected]
        assert [e.at_s for e in events] == pytest.approx([e[0] for e in expected], rel=1e-9)
    assert phases > 0


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000))
def test_a_job_does_exactly_its_work_whatever_happens_around_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine = Engine(CLUSTER, np.random.default_rng(0))
    done, works, units, now = dict[int, float](), dict[int, float](), dict[int, int](), 0.0
    for key in range(12):
        order = drawn_order(key, engine.used_units, rng)
        if order is not None and order.duration_s is None:
            works[key] = order.work_s
            units[key] = sum(count for _, count in order.parts)
            engine.start([order], now)
        until = now + float(rng.exponential(60.0))
        while now < until:  # speeds are constant between events
            step = min(engine.next_event_s, until)
            for running in [k for k in works if k in engine]:
                done[running] = done.get(running, 0.0) + engine.speed(running) * (step - now)
            engine.advance(step)
            now = step
    ended = [key for key in works if key not in engine]
    assert [done[key] for key in ended] == pytest.approx([works[key] for key in ended])
    held = sum(units[key] for key in works if key in engine)
    assert engine.used_units.sum() == held
