"""Programs to profile, and a session that runs them on this machine."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.execution.backends.profiler import scheduling
from apps.execution.backends.profiler.reference import ReferenceProcess
from apps.execution.backends.profiler.session import Session, Settings, started

# Computes in registers and the L1 cache, and says its progress every few milliseconds.
COMPUTE = """
import os
done = 0
with open(os.environ["BERTH_PROGRESS"], "w") as file:
    while True:
        sum(i * i for i in range(5000))
        done += 1
        file.write(f"{done / 1e7:.7f}\\n")
        file.flush()
"""
WINDOW_S = 0.25


@pytest.fixture
def compute(tmp_path: Path) -> list[str]:
    """Return a command that computes without end."""
    script = tmp_path / "compute.py"
    script.write_text(COMPUTE)
    return [sys.executable, "-I", "-S", str(script)]


@contextmanager
def session(
    command: list[str], directory: Path, *, is_realtime: bool = False
) -> Iterator[Session]:
    """Start a program on the last core, and yield the session that measures it."""
    cpu = max(os.sched_getaffinity(0))
    settings = Settings(
        command, (), cpu, str(directory), WINDOW_S, patience_s=60.0, is_realtime=is_realtime
    )
    priority = scheduling.request((cpu,), is_wanted=is_realtime)
    try:
        with started(settings, priority) as program, ReferenceProcess(cpu, priority) as reference:
            yield Session(settings, priority, program, reference, lambda text: None)
    finally:
        scheduling.restore()


def may_be_realtime() -> bool:
    """Return whether SCHED_FIFO is allowed here."""
    try:
        return scheduling.request((0,), is_wanted=True).is_realtime
    finally:
        scheduling.restore()
