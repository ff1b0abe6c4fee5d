import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane.embedded.processes import (
    Child,
    alive,
    bound_to_parent,
    last_line,
    start,
    stop_all,
    wait_all,
)

pytestmark = pytest.mark.service

DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('deaf', flush=True); time.sleep(60)"
)


def python(program: str, tmp_path: Path, *, stop: tuple[signal.Signals, ...]) -> Child:
    return start(
        "child",
        bound_to_parent([sys.executable, "-c", program]),
        log=tmp_path / "log",
        environment=os.environ,
        stop_signals=stop,
    )


def await_line(tmp_path: Path) -> str:
    """Return the line that a child prints once it is ready for signals."""
    until_s = time.monotonic() + 60.0
    while not (line := last_line(tmp_path / "log")):
        assert time.monotonic() < until_s
        time.sleep(0.02)
    return line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n\n", ""),
        ("one\ntwo\n\n", "two"),
        ("CommandError: line 7 of t.tsv has no time", "line 7 of t.tsv has no time"),
        ("x" * 5000 + "\nlast", "last"),
    ],
)
def test_the_last_line_is_the_last_that_says_something(
    tmp_path: Path, text: str, line: str
) -> None:
    (tmp_path / "log").write_text(text)
    assert last_line(tmp_path / "log") == line


def test_a_child_that_fails_is_described_by_code_and_last_line(tmp_path: Path) -> None:
    child = python("print('no such host'); raise SystemExit(3)", tmp_path, stop=(signal.SIGTERM,))
    assert wait_all([child], timeout_s=10)
    assert child.describe_end() == "child ended with code 3: no such host"


def test_a_child_that_is_killed_is_described_by_the_signal(tmp_path: Path) -> None:
    child = python("import time; time.sleep(60)", tmp_path, stop=(signal.SIGTERM,))
    child.send(signal.SIGKILL)
    assert wait_all([child], timeout_s=10)
    assert child.describe_end() == "child was killed by SIGKILL"


def test_a_child_gives_way_to_others_and_one_that_has_ended_is_left_alone(tmp_path: Path) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    child = python("import time; time.sleep(60)", tmp_path, stop=(signal.SIGKILL,))
    child.set_niceness(min(own + 7, 19))
    assert os.getpriority(os.PRIO_PROCESS, child.process.pid) == min(own + 7, 19)
    stop_all([child], timeout_s=10)
    child.set_niceness(19)


def test_a_child_that_ignores_the_first_signal_gets_the_next(tmp_path: Path) -> None:
    child = python(DEAF, tmp_path, stop=(signal.SIGTERM, signal.SIGINT))
    await_line(tmp_path)
    stop_all([child], timeout_s=2.0)
    assert child.exit_code == -signal.SIGINT


def test_a_child_that_ignores_everything_is_killed_in_time(tmp_path: Path) -> None:
    child = python(DEAF, tmp_path, stop=(signal.SIGTERM,))
    await_line(tmp_path)
    began_s = time.monotonic()
    stop_all([child], timeout_s=0.5)
    assert child.exit_code == -signal.SIGKILL
    assert time.monotonic() - began_s < 2.0


def test_grandchildren_are_killed_with_the_child(tmp_path: Path) -> None:
    program = (
        "import subprocess, time; child = subprocess.Popen(['sleep', '60']); "
        "print(child.pid, flush=True); time.sleep(60)"
    )
    child = python(program, tmp_path, stop=(signal.SIGTERM,))
    grandchild = int(await_line(tmp_path))
    assert alive(grandchild)
    stop_all([child], timeout_s=1.0)
    assert not alive(grandchild)


def test_a_bound_program_ends_if_its_parent_has_already_ended() -> None:
    command = bound_to_parent(["echo", "too late"])
    command[4] = "1"  # as if the launcher had died and the child had a new parent
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout) == (1, "")
    assert "already ended" in done.stderr
