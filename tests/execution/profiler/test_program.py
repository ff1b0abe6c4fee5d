"""How a program is measured: by its own progress, or by repeated runs."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apps.execution.backends.profiler import scheduling
from apps.execution.backends.profiler.program import (
    Launcher,
    NoProgressError,
    Program,
    RepeatedProgram,
    ReportingProgram,
    prepare,
)
from apps.execution.backends.profiler.sandbox import Directory
from apps.execution.backends.profiler.scheduling import Priority
from apps.profiling.core.windows import Fault
from controlplane.embedded.instance import PROJECT
from tests.execution.profiler.conftest import may_be_realtime

CPU = max(os.sched_getaffinity(0))


def launcher(command: list[str], tmp_path: Path) -> Launcher:
    priority = Priority((CPU,), is_realtime=False)
    return Launcher(command, priority, place(tmp_path), tmp_path / "progress")


def place(directory: Path) -> Directory:
    return Directory(str(directory), str(directory / "progress"))


def start(tmp_path: Path, source: str, *, patience_s: float = 60.0) -> Program:
    command = [sys.executable, "-I", "-S", "-c", source]
    return prepare(launcher(command, tmp_path), patience_s=patience_s)


def ignore() -> None:
    """Mark nothing."""


def test_a_program_that_says_progress_is_measured_by_it(
    compute: list[str], tmp_path: Path
) -> None:
    program = prepare(launcher(compute, tmp_path), patience_s=60.0)
    marks: list[None] = []
    try:
        found = program.stretch(0.2, lambda: marks.append(None))
    finally:
        program.close()
    assert isinstance(program, ReportingProgram)
    assert len(marks) == 2
    assert found.fault is None
    assert found.wall_s >= 0.2
    assert 0.0 < found.cpu_s <= found.wall_s + 0.01
    assert found.wait_s is not None
    # one step of its progress is 1e-7, and takes some microseconds of CPU time at least
    assert 0.0 < found.work < found.cpu_s / 1e-6 * 1e-7


def test_a_short_program_is_run_again_and_again(tmp_path: Path) -> None:
    program = start(tmp_path, "sum(range(100_000))")
    found = program.stretch(0.2, ignore)
    assert isinstance(program, RepeatedProgram)
    assert found.work >= 1.0
    assert found.work == int(found.work)
    assert found.cpu_s > 0.0
    assert found.wait_s is not None


def test_the_waits_of_several_processes_are_unknown_but_their_time_counts(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.1: pass"
    source = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}], check=True)"
    )
    found = start(tmp_path, source).stretch(0.1, ignore)
    assert found.wait_s is None
    assert found.cpu_s >= 0.1 * found.work


def test_a_program_that_ends_within_a_window_is_started_again(tmp_path: Path) -> None:
    source = """
import os, time
with open(os.environ["BERTH_PROGRESS"], "w") as file:
    for number in range(30):
        file.write(f"{number / 30}\\n")
        file.flush()
        time.sleep(0.01)
"""
    program = start(tmp_path, source)
    try:
        faults = {program.stretch(0.5, ignore).fault for _ in range(2)}
    finally:
        program.close()
    assert isinstance(program, ReportingProgram)
    assert faults == {Fault.ENDED}


def test_a_program_without_progress_that_does_not_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoProgressError, match=r"neither ended within 0\.3 s nor wrote"):
        start(tmp_path, "import time; time.sleep(60)", patience_s=0.3)


def test_a_program_that_fails_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoProgressError, match="exit code 3"):
        start(tmp_path, "raise SystemExit(3)")


def test_a_command_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    missing = launcher(["/no/such"], tmp_path)
    with pytest.raises(NoProgressError, match="could not be started"):
        prepare(missing, patience_s=1.0)


def test_the_program_runs_on_its_core(tmp_path: Path) -> None:
    found = tmp_path / "cores"
    source = f"import os; open({str(found)!r}, 'w').write(str(os.sched_getaffinity(0)))"
    start(tmp_path, source)
    assert found.read_text() == str({CPU})


def test_the_program_ends_with_its_profiler(tmp_path: Path) -> None:
    # the profiler starts a program that would sleep for long, prints its id and kills itself
    source = f"""
import os, signal
from pathlib import Path
from apps.execution.backends.profiler.program import Launcher
from apps.execution.backends.profiler.sandbox import Directory
from apps.execution.backends.profiler.scheduling import Priority
folder = Path({str(tmp_path)!r})
priority = Priority(({CPU},), is_realtime=False)
place = Directory(str(folder), str(folder / "progress"))
process = Launcher(["sleep", "600"], priority, place, folder / "progress").start()
print(process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", source], cwd=PROJECT, stdout=subprocess.PIPE, check=False
    )
    program = Path(f"/proc/{int(done.stdout)}/stat")
    until_s = time.monotonic() + 60.0
    while time.monotonic() < until_s and is_alive(program):
        time.sleep(0.01)
    assert not is_alive(program)


def is_alive(stat: Path) -> bool:
    """Whether a process exists and is no zombie, which an orphan may stay for a while."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Witness(Priority):
    """A priority that records which one a process has before it sets its own."""

    __slots__ = ()

    def apply_to_program(self) -> None:
        Path("before").write_text(str(os.sched_getscheduler(0)))


@pytest.mark.skipif(not may_be_realtime(), reason="needs the right to SCHED_FIFO")
def test_a_program_never_waits_at_ordinary_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        priority = scheduling.request((CPU,), is_wanted=True)
        witness = Witness(priority.program_cpus, is_realtime=True)
        Launcher(["true"], witness, place(tmp_path), tmp_path / "progress").start().wait()
        # the flag is set again: other processes that the profiler starts stay ordinary
        assert os.sched_getscheduler(0) == os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    finally:
        scheduling.restore()
    assert (tmp_path / "before").read_text() == str(os.SCHED_FIFO)
