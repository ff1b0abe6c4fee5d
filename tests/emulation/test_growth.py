"""Units that are added to a running job."""

import numpy as np
import pytest

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineEvent, EngineOrder, EventKind
from apps.emulation.core.truth import Truth
from tests.emulation.worlds import machines, truth


def started(app: Truth, *parts: tuple[int, int], tasks: int | None = None) -> Engine:
    engine = Engine(machines(4, 4, 4), np.random.default_rng(0))
    engine.start([EngineOrder("a", app, parts, 100.0, tasks)], 0.0)
    return engine


def end_of(events: list[EngineEvent]) -> float:
    (event,) = events
    assert event.kind is EventKind.FINISHED
    return event.at_s


@pytest.mark.parametrize("more", [((0, 1),), ((1, 1),)])
def test_added_units_work_from_then_on(more: tuple[tuple[int, int], ...]) -> None:
    engine = started(truth(), (0, 1))
    engine.grow("a", more, 40.0)
    # 40 of 100 unit-seconds are done before, the rest at two a second
    assert end_of(engine.advance(1e6)) == pytest.approx(70.0)


def test_added_units_are_allocated_until_the_job_ends() -> None:
    engine = started(truth(), (0, 1))
    engine.grow("a", [(0, 2), (2, 4)], 0.0)
    assert engine.used_units.tolist() == [3, 0, 4]
    engine.advance(1e6)
    assert engine.used_units.tolist() == [0, 0, 0]


def test_the_waves_of_its_tasks_follow_the_number_of_units() -> None:
    """Three tasks keep a unit busy, but only three quarters of two units."""
    engine = started(truth(), (0, 1), tasks=3)
    engine.grow("a", [(0, 1)], 0.0)
    assert engine.speed("a") == pytest.approx(1.5)


def test_a_job_in_step_grows() -> None:
    engine = started(truth(is_in_step=True), (0, 1))
    engine.grow("a", [(1, 1)], 10.0)
    assert engine.speed("a") == pytest.approx(2.0)


def test_a_job_that_grew_can_migrate_and_grow_again() -> None:
    engine = started(truth(), (0, 1))
    engine.grow("a", [(1, 1)], 0.0)
    engine.migrate("a", 1, 2, 1, 0.0, 5.0)
    with pytest.raises(ValueError, match="job a is migrating to server 2"):
        engine.grow("a", [(0, 1)], 1.0)
    engine.advance(5.0)
    engine.grow("a", [(2, 1)], 5.0)
    assert engine.used_units.tolist() == [1, 0, 2]
    assert engine.speed("a") == pytest.approx(3.0)


def test_only_free_units_are_added() -> None:
    engine = started(truth(), (0, 3))
    with pytest.raises(ValueError, match="server 0 has 1 free units, not 2"):
        engine.grow("a", [(0, 2)], 0.0)
    with pytest.raises(KeyError):
        engine.grow("b", [(0, 1)], 0.0)
    assert engine.used_units.tolist() == [3, 0, 0]
