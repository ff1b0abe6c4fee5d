"""Windows of real programs next to real stressors, on this machine, however busy it is.

A disturbed window must be invalid, and one that counts must be right. So the tests also hold
while other programs use the cores, only with fewer windows that count.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest

from apps.execution.backends.profiler.session import Session
from apps.execution.backends.profiler.stressor import Account, StressProcess
from apps.profiling.core.paired import Pair
from apps.profiling.core.ramp import NoisePrior
from apps.profiling.core.sensitivity import State, measure
from apps.profiling.core.stressors import STRESSORS, Side
from apps.profiling.core.windows import Basis, Fault, fault_of
from tests.execution.profiler.conftest import may_be_realtime, session

PAIRS = 6
ENOUGH = 3  # valid pairs, of which the median is judged
MAX_PAIRS = 80  # that are measured for them: about a minute
SPIN = [sys.executable, "-I", "-S", "-c", "while True: pass"]


PRIOR = NoisePrior(0.03, weight=4.0)


SCHEDULING = [
    False,
    pytest.param(
        True,
        marks=pytest.mark.skipif(not may_be_realtime(), reason="needs the right to SCHED_FIFO"),
    ),
]


class NeverTold(StressProcess):
    """A stressor that gets no orders."""

    def on(self, intensity: int) -> None:
        """Stay off."""


class Stopped(StressProcess):
    """A stressor that is stopped as soon as it is told to press."""

    def on(self, intensity: int) -> None:
        super().on(intensity)
        os.kill(self.pid, signal.SIGSTOP)

    def off(self) -> Account:
        os.kill(self.pid, signal.SIGCONT)
        return super().off()


class Boasting(NeverTold):
    """A stressor that says that it pressed all the time, but did not."""

    def off(self) -> Account:
        super().off()
        return Account(pressed=1.0, speed=1.0)


def stressor(run: Session, name: str, kind: type[StressProcess] = StressProcess) -> StressProcess:
    cpu = run.settings.cpu
    if STRESSORS[name].side is Side.OTHER:
        cpu = min(os.sched_getaffinity(0) - {cpu})
    return kind(STRESSORS[name], cpu, run.settings.directory, run.priority)


def pairs_of(run: Session, process: StressProcess) -> list[Pair]:
    return [run.pair(process, 100, bool(number % 2)) for number in range(PAIRS)]


def valid_pairs(run: Session, process: StressProcess) -> list[Pair]:
    """Measure until enough pairs count, with patience for a busy machine; at least one does."""
    pairs: list[Pair] = []
    while len(pairs) < MAX_PAIRS and len(valid(pairs)) < ENOUGH:
        pairs.append(run.pair(process, 100, bool(len(pairs) % 2)))
    faults = Counter(pair.fault(Basis.CPU) for pair in pairs)
    assert valid(pairs), f"no pair of {len(pairs)} counts: {faults}"
    return valid(pairs)


def ratio(pairs: list[Pair], basis: Basis) -> float:
    """Return the median speed next to the stressor, relative to that without it."""
    return median(pair.on.speed(basis) / pair.off.speed(basis) for pair in pairs)


@contextmanager
def foreign_load(cpu: int) -> Iterator[None]:
    """Let another program use a core all the time."""
    process = subprocess.Popen(SPIN)  # noqa: S603 - our own program
    os.sched_setaffinity(process.pid, {cpu})
    try:
        yield
    finally:
        process.kill()
        process.wait()


def valid(pairs: list[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.fault(Basis.CPU) is None]


def wrong(pairs: list[Pair]) -> list[float]:
    """Return the effects of pairs that count, although the program is insensitive."""
    found = [pair.difference(Basis.CPU) for pair in valid(pairs)]
    return [effect for effect in found if abs(effect) > 0.2]


def state_of(run: Session, process: StressProcess) -> State:
    """Measure the source of a stressor."""
    return measure(lambda level, first: run.pair(process, level, first), Basis.CPU, PRIOR).state


def test_a_stressor_on_the_same_core_halves_wall_speed_only(
    compute: list[str], tmp_path: Path
) -> None:
    # the best class that this machine allows: a busy core leaves ordinary programs no valid pair
    with (
        session(compute, tmp_path, is_realtime=may_be_realtime()) as run,
        stressor(run, "core") as process,
    ):
        pairs = valid_pairs(run, process)
    # the median: another guest of the host may slow one window down, which no counter shows
    assert 0.35 < ratio(pairs, Basis.WALL) <= 0.7
    assert 0.9 < ratio(pairs, Basis.CPU) < 1.1
    for pair in pairs:
        assert pair.on.told == 0.5
        assert pair.on.pressed > 0.4


def test_pairs_under_ordinary_scheduling_that_count_are_right(
    compute: list[str], tmp_path: Path
) -> None:
    with session(compute, tmp_path) as run, stressor(run, "core") as process:
        pairs = pairs_of(run, process)
    assert wrong(pairs) == []
    for pair in valid(pairs):
        assert 0.35 < pair.on.speed(Basis.WALL) / pair.off.speed(Basis.WALL) < 0.7


@pytest.mark.parametrize("kind", [NeverTold, Stopped, Boasting])
def test_a_stressor_that_does_not_run_is_invalid(
    compute: list[str], tmp_path: Path, kind: type[StressProcess]
) -> None:
    with session(compute, tmp_path) as run, stressor(run, "core", kind) as process:
        on = [run.window(process, 100) for _ in range(3)]
    assert [fault_of(window, Basis.CPU) for window in on] == [Fault.IDLE_STRESSOR] * 3


def test_a_source_with_an_idle_stressor_is_invalid(compute: list[str], tmp_path: Path) -> None:
    with session(compute, tmp_path) as run, stressor(run, "core", NeverTold) as process:
        found = measure(lambda level, first: run.pair(process, level, first), Basis.CPU, PRIOR)
    assert found.state is State.INVALID
    assert found.reason == Fault.IDLE_STRESSOR


@pytest.mark.parametrize("is_realtime", SCHEDULING)
def test_foreign_load_on_its_core_leaves_a_window_right_or_invalid(
    compute: list[str], tmp_path: Path, is_realtime: bool
) -> None:
    with (
        session(compute, tmp_path, is_realtime=is_realtime) as run,
        stressor(run, "core") as process,
        foreign_load(run.settings.cpu),
    ):
        pairs = pairs_of(run, process)
        state = state_of(run, process)
    assert state is not State.MEASURED
    assert wrong(pairs) == []
    if not is_realtime:
        # a third of the core is left to the program: no window can count
        assert valid(pairs) == []
        assert state is State.INVALID


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_foreign_load_next_to_it_leaves_a_window_right_or_invalid(
    compute: list[str], tmp_path: Path
) -> None:
    with (
        session(compute, tmp_path) as run,
        stressor(run, "memory_bandwidth") as process,
        foreign_load(process.cpu),
    ):
        found = measure(lambda level, first: run.pair(process, level, first), Basis.CPU, PRIOR)
    # the stressor gets half of its core: its windows cannot count
    assert found.state is State.INVALID
