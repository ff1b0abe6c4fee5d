"""Truths in the engine's tables: shared while jobs run, given up afterwards."""

import numpy as np
import pytest

from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder
from apps.emulation.core.truth import Truth
from tests.emulation.plain_engine import PlainEngine
from tests.emulation.worlds import all_platforms, machines

CLUSTER = machines(*[8] * 40, platforms=all_platforms())
MORE_THAN_AT_FIRST = 200  # kinds; there is room for 64 at first


def truth(seed: int) -> Truth:
    return application_truth(1, f"kind-{seed}", KINDS[seed % 4], all_platforms())


def order(key: int, of: Truth, server: int) -> EngineOrder:
    return EngineOrder(key, of, [(server, 1)], work_s=50.0 + key)


@pytest.mark.parametrize("together", [1, MORE_THAN_AT_FIRST])
def test_any_number_of_applications_runs_as_in_the_plain_engine(together: int) -> None:
    engine, plain = Engine(CLUSTER, np.random.default_rng(0)), PlainEngine(CLUSTER)
    now = 0.0
    for key in range(MORE_THAN_AT_FIRST):
        started = order(key, truth(key), key % 40)
        engine.start([started], now)
        plain.start([started], now)
        now += 1.0 if together > 1 else 1000.0
        ended = [(event.key, event.kind.value) for event in engine.advance(now)]
        assert ended == [(event[2], event[1]) for event in plain.advance(now)]
    last = [(event.key, event.at_s) for event in engine.advance(1e6)]
    expected = [(event[2], event[0]) for event in plain.advance(1e6)]
    assert [key for key, _ in last] == [key for key, _ in expected]
    assert [at for _, at in last] == pytest.approx([at for _, at in expected], rel=1e-9)


def test_an_order_that_cannot_start_leaves_the_orders_before_it() -> None:
    engine, same = Engine(CLUSTER, np.random.default_rng(0)), truth(1)
    with pytest.raises(ValueError, match="server 0 has 7 free units, not 8"):
        engine.start(
            [order(1, same, 0), EngineOrder(2, same, [(0, 8)], 9.0), order(3, same, 1)], 0.0
        )
    assert 1 in engine
    assert len(engine) == 1
    engine.start([EngineOrder(2, same, [(0, 7)], 9.0)], 0.0)
    assert engine.used_units[:2].tolist() == [8, 0]


def test_a_job_has_at_least_one_task() -> None:
    engine = Engine(CLUSTER, np.random.default_rng(0))
    with pytest.raises(ValueError, match="tasks must be at least 1"):
        engine.start([EngineOrder(1, truth(1), [(0, 1)], 9.0, tasks=0)], 0.0)
