"""One process of a machine compiles the kernels, and reports it."""

import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest
import redis
from django.core.cache import cache

from apps.common.infrastructure import warm_up
from apps.common.infrastructure.warm_up import Kernels, warming, warming_up

LOCK_FILE = warm_up._lock_file


@pytest.fixture(autouse=True)
def _own_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(warm_up, "_lock_file", lambda kernels: tmp_path / kernels)


def _enters(kernels: Kernels, *, within_s: float) -> bool:
    """Whether another thread gets the lock in time; it gives the lock back at once."""
    entered = Event()

    def enter() -> None:
        with warming_up(kernels):
            entered.set()

    Thread(target=enter, daemon=True).start()
    return entered.wait(within_s)


def test_a_second_process_waits_while_the_first_compiles() -> None:
    with warming_up(Kernels.PLACEMENT):
        assert not _enters(Kernels.PLACEMENT, within_s=0.2)


def test_the_lock_is_free_once_the_kernels_are_compiled() -> None:
    with warming_up(Kernels.PLACEMENT):
        pass
    assert _enters(Kernels.PLACEMENT, within_s=10.0)


def test_each_group_of_kernels_has_its_own_lock() -> None:
    with warming_up(Kernels.PLACEMENT):
        assert _enters(Kernels.SCHEDULING, within_s=10.0)


def test_a_warm_up_is_reported_while_it_lasts() -> None:
    assert warming() == ()
    with warming_up(Kernels.PLACEMENT):
        assert warming() == (Kernels.PLACEMENT,)
    assert warming() == ()


def test_kernels_are_compiled_while_the_cache_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise redis.ConnectionError

    monkeypatch.setattr(cache, "set", fail)
    with warming_up(Kernels.PLACEMENT):
        assert warming() == ()


def test_no_warm_up_is_known_while_the_cache_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise redis.ConnectionError

    with warming_up(Kernels.PLACEMENT):
        monkeypatch.setattr(cache, "get_many", fail)
        assert warming() == ()


def test_containers_that_share_machine_code_share_the_lock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert LOCK_FILE(Kernels.PLACEMENT).parent == tmp_path


def printed_by(program: str) -> str:
    """Run a program in a process of its own, which has loaded nothing yet; return its output."""
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout


INFER = """
import numpy as np
from apps.classification.core.estimators import DEFAULT, kernels
from apps.classification.core.inference import compile_kernels, fitted_model
from apps.classification.core.matrix import Scale

def forms():
    found = [getattr(kernels, name) for name in dir(kernels)]
    return {f.__name__: len(f.signatures) for f in found if hasattr(f, "signatures")}

compile_kernels()
before = forms()
rows = np.random.default_rng(1).lognormal(0.0, 0.5, (20, 6))
for scale in (Scale.LOG, Scale.SCORE):
    model = fitted_model(DEFAULT, scale, rows)
    for k in (0, 1, 3):
        known = np.arange(6) < k
        model.fold(rows[0], known, error=rows[0] / 50.0)
        model.fold(rows[:4], np.tile(known, (4, 1)))
print(before == forms(), sum(before.values()) >= 2)
"""


def test_the_warm_up_compiles_what_an_inference_needs() -> None:
    assert printed_by(INFER) == "True True\n"


SEARCH = """
import sys, time
from apps.placement.core.rebalancing.planner import improve
from tests.placement.core.small_cluster import small_cluster

found = improve(small_cluster(1), {"P": 1.0, "D": 1.0, "C": 1.0}, clock=time.perf_counter)
print(found.migration_count > 0, "numba" in sys.modules)
"""


def test_previews_and_plans_need_no_kernels() -> None:
    # their tasks therefore take no lock
    assert printed_by(SEARCH) == "True False\n"
