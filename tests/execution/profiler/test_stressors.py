"""Every stressor presses, stops, and dies with its profiler."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apps.common.core.interference import SOURCES
from apps.execution.backends.profiler import kernels
from apps.execution.backends.profiler.machine import Caches, cpu_list
from apps.execution.backends.profiler.scheduling import Priority
from apps.execution.backends.profiler.stressor import StressProcess
from apps.profiling.core.ramp import ProbeFailedError
from apps.profiling.core.stressors import NOT_PRESSED, STRESSORS, Side

CPU = min(os.sched_getaffinity(0))
PRIORITY = Priority((CPU,), is_realtime=False)
SMALL = Caches(l1d=32 << 10, l2=256 << 10, llc=1 << 20)


def test_every_source_is_pressed_or_named_as_not_pressed() -> None:
    pressed = {stressor.source for stressor in STRESSORS.values() if stressor.source}
    assert pressed | NOT_PRESSED.keys() == set(SOURCES)
    assert not pressed & NOT_PRESSED.keys()


@pytest.mark.parametrize("name", [name for name in STRESSORS if name != "memory_capacity"])
def test_every_kernel_presses(name: str, tmp_path: Path) -> None:
    kernel = kernels.make(name, SMALL, str(tmp_path))
    kernel.set_intensity(50)
    assert sum(kernel.press() for _ in range(3)) > 0.0
    kernel.close()
    assert list(tmp_path.iterdir()) == []  # the file of the disk has no name


def test_memory_is_held_by_intensity_and_given_back() -> None:
    kernel = kernels.hold(64 << 20)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    kernel.set_intensity(50)
    assert resident() - before > 24 << 20
    kernel.press()
    kernel.set_intensity(0)
    assert resident() - before < 8 << 20


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="'l1i'"):
        kernels.make("l1i", SMALL, "/")


@pytest.mark.parametrize("intensity", [25, 100])
def test_a_stressor_never_uses_more_than_its_share(tmp_path: Path, intensity: int) -> None:
    with StressProcess(STRESSORS["l1d"], CPU, str(tmp_path), PRIORITY) as process:
        process.on(intensity)
        begun_s, before = time.monotonic(), process.times()
        while process.times().ran_s - before.ran_s < 0.1:
            time.sleep(0.01)
        after, ended_s = process.times(), time.monotonic()
        account = process.off()
        share = (after.ran_s - before.ran_s) / (ended_s - begun_s)
        told = STRESSORS["l1d"].max_share * intensity / 100.0
        # it may make up for one period of 20 ms that it missed
        assert share < told * 1.15 + 0.05
        assert 0.0 < account.pressed < told * 1.15 + 0.05
        assert account.speed > 0.0
        assert STRESSORS["l1d"].side is Side.SAME
        assert os.sched_getaffinity(process.pid) == {CPU}
        process.off()
        before = process.times()
        time.sleep(0.2)
        assert process.times().ran_s - before.ran_s < 0.05


def test_a_stressor_that_dies_fails_the_probe(tmp_path: Path) -> None:
    with StressProcess(STRESSORS["core"], CPU, str(tmp_path), PRIORITY) as process:
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProbeFailedError, match="core died"):
            process.on(100)


def test_a_stressor_ends_with_its_profiler(tmp_path: Path) -> None:
    program = [
        sys.executable, "-m", "apps.execution.backends.profiler.stress", "core", str(CPU),
        str(tmp_path),
    ]  # fmt: skip
    with subprocess.Popen(  # noqa: S603 - our own program
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.write(b"100 0.5 0\n")
        process.stdin.close()
        assert process.wait(60.0) == 0


def test_lists_of_cores_are_read() -> None:
    assert cpu_list("0-2,5") == (0, 1, 2, 5)
    assert cpu_list("7") == (7,)
