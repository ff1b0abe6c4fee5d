"""`./dev run` as a whole: start, one page, and every way to stop it."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from controlplane.embedded.instance import PROJECT, InstanceDirectory, kernels_digest

pytestmark = pytest.mark.service

START_TIMEOUT_S = 300.0  # the first start of a checkout compiles kernels
LAST_STARTED = " beat "


@dataclass(frozen=True)
class Place:
    """A directory for an instance and its sockets, and two adjacent ports."""

    home: Path
    temporary: Path
    port: int


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as directory:
        temporary = Path(directory) / "tmp"
        temporary.mkdir()
        yield Place(home=Path(directory) / "home", temporary=temporary, port=two_free_ports())


@pytest.fixture
def run(place: Place) -> Iterator["subprocess.Popen[str]"]:
    """Start an instance with the data of the previous test and wait until all processes run."""
    environment = {
        **{name: value for name, value in os.environ.items() if "_URL" not in name},
        "BERTH_HOME": str(place.home),
        "TMPDIR": str(place.temporary),
        "PYTHONPATH": str(PROJECT),
    }
    arguments = ["run", "--empty", "--port", str(place.port)]
    with subprocess.Popen(  # noqa: S603  (our own program)
        [sys.executable, "-m", "controlplane.embedded", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        wait_until(lambda: page_answers(place.port) and bool(members(process, LAST_STARTED)))
        yield process
        process.kill()


def two_free_ports() -> int:
    """Return a port that is free and whose next is free."""
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = int(first.getsockname()[1])
        with socket.create_server(("127.0.0.1", port + 1)):
            return port


def page_answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False


def wait_until(condition: Callable[[], bool], *, within_s: float = START_TIMEOUT_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def members(process: "subprocess.Popen[str]", words: str) -> list[psutil.Process]:
    return [child for child in family(process) if words in command_line(child)]


def command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""  # it ended during the scan


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if not has_ended(process)]


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended; its new parent may not have collected its status yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def left_behind(place: Place) -> list[str]:
    # locks on compiling stay: another instance of this checkout may hold them
    names = {path.name for path in place.temporary.iterdir() if path.suffix != ".lock"}
    names |= {path.name for path in place.home.iterdir() if path.name in {"lock", "run.json"}}
    return sorted(names)


def test_ctrl_c_ends_everything_within_five_seconds(
    run: "subprocess.Popen[str]", place: Place
) -> None:
    children = family(run)
    began_s = time.monotonic()
    run.send_signal(signal.SIGINT)
    code = run.wait(timeout=30)
    assert (code, alive(children), left_behind(place)) == (0, [], [])
    assert time.monotonic() - began_s < 5.0


def test_kernels_are_compiled_before_cluster_time_runs(
    run: "subprocess.Popen[str]", place: Place
) -> None:
    assert InstanceDirectory(place.home).load("state")["kernels"] == kernels_digest()
    compiled, started = (
        place.home / "logs" / name for name in ("compile_kernels-emulation.log", "start_clock.log")
    )
    assert compiled.read_text() == "compiled the kernels of emulation\n"
    assert compiled.stat().st_mtime < started.stat().st_mtime


def test_work_that_can_wait_gives_way_to_placing_jobs(run: "subprocess.Popen[str]") -> None:
    queues = ("agents", "default", "upkeep", "placement")
    nice = {queue: {p.nice() for p in members(run, f"--queues {queue}")} for queue in queues}
    (own,) = nice.pop("agents")
    assert all(min(values) > own for values in nice.values())


def test_a_killed_process_is_started_again(run: "subprocess.Popen[str]") -> None:
    killed = [members(run, words)[0] for words in ("run_emulator", "--queues agents", "valkey")]
    for process in killed:
        process.kill()
    for words in ("run_emulator", "--queues agents", "valkey"):
        wait_until(lambda words=words: bool(set(members(run, words)) - set(killed)))  # type: ignore[misc]
    run.send_signal(signal.SIGINT)
    output, _errors = run.communicate(timeout=30)
    assert "emulator was killed by SIGKILL; it starts again in 1 s." in output
    assert run.returncode == 0


def test_a_killed_database_is_one_sentence_and_everything_stops(
    run: "subprocess.Popen[str]", place: Place
) -> None:
    children = family(run)
    members(run, "postgres -D")[0].kill()
    _output, errors = run.communicate(timeout=30)
    assert errors.startswith("berth: Berth stopped because PostgreSQL was killed by SIGKILL")
    assert errors.count("\n") == 1
    assert (run.returncode, alive(children), left_behind(place)) == (1, [], [])


def test_killing_the_launcher_ends_everything(run: "subprocess.Popen[str]") -> None:
    children = family(run)
    run.kill()
    wait_until(lambda: not alive(children), within_s=10)
    assert alive(children) == []


def test_a_start_after_a_killed_launcher_cleans_up_after_it(
    run: "subprocess.Popen[str]", place: Place
) -> None:
    assert len([name for name in left_behind(place) if name.startswith("berth-")]) == 1
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=30) == 0
    assert left_behind(place) == []
