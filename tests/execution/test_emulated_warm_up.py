import numpy as np
import pytest

from apps.emulation.core import event_kernels, kernels, start_kernels
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder
from apps.execution.backends.emulated.site import WORLD_NAMES
from apps.execution.backends.emulated.warm_up import warm_up
from tests.emulation.worlds import machines, truth


def compiled() -> int:
    """Return the number of compiled forms of all kernels of the engine."""
    modules = (event_kernels, kernels, start_kernels)
    found = [getattr(each, "signatures", []) for m in modules for each in vars(m).values()]
    return sum(map(len, found))


@pytest.mark.parametrize("world", WORLD_NAMES)
def test_no_kernel_is_compiled_for_a_first_job_after_a_warm_up(world: str) -> None:
    warm_up(world)
    before = compiled()
    assert before > 0
    engine = Engine(machines(4, 4), np.random.default_rng(1))
    order = EngineOrder("first", truth(), [(0, 1), (1, 2)], work_s=9.0)
    engine.start([order], 1.0)
    engine.advance(100.0)
    assert len(engine) == 0
    assert compiled() == before
