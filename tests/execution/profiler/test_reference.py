"""The reference of the speed of a core: frequent samples, little CPU time, and an end."""

import os
import time

import pytest

from apps.execution.backends.profiler import reference
from apps.execution.backends.profiler.reference import ReferenceProcess
from apps.execution.backends.profiler.scheduling import Priority
from apps.profiling.core.ramp import ProbeFailedError

CPU = max(os.sched_getaffinity(0))
PRIORITY = Priority((CPU,), is_realtime=False)


def test_it_samples_the_core_and_leaves_it_to_the_program() -> None:
    with ReferenceProcess(CPU, PRIORITY) as process:
        first, before, begun_s = process.count(), process.times().ran_s, time.monotonic()
        time.sleep(0.5)
        end, used_s = process.count(), process.times().ran_s - before
        share = used_s / (time.monotonic() - begun_s)
        taken_s = process.loop_s(first, end)
    assert end - first >= 3  # sixty on a quiet machine
    assert share < 0.05
    assert taken_s is not None
    assert 1e-6 < taken_s < 1e-2


def test_a_core_that_is_slow_for_a_quarter_of_the_time_has_a_slower_loop() -> None:
    with ReferenceProcess(CPU, PRIORITY) as process:
        memory = process._memory
        for number, taken_s in enumerate([2e-5, 1e-5, 1e-5, 1e-5]):
            reference._SAMPLE.pack_into(memory, 8 + 8 * (1000 + number), taken_s)
        assert process.loop_s(1000, 1004) == pytest.approx(1.25e-5)


def test_without_samples_it_says_nothing() -> None:
    with ReferenceProcess(CPU, PRIORITY) as process:
        assert process.loop_s(5, 5) is None


def test_it_ends_with_its_context() -> None:
    with ReferenceProcess(CPU, PRIORITY) as process:
        process.times()
    with pytest.raises(OSError, match="No such"):
        process.times()


def test_a_reference_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "READY_S", 0.0)
    with pytest.raises(ProbeFailedError, match="reference"):
        ReferenceProcess(CPU, PRIORITY)
