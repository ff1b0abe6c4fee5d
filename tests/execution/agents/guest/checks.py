"""Process 1 of the guest: tasks under control groups of version 2. Standard library and agent."""

import ctypes
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apps.execution.backends.agent.accounts import Accounts
from apps.execution.backends.agent.task import Task
from apps.execution.backends.agent.tasks import Tasks
from apps.execution.core.port import CommandOrder

ROOT = Path("/sys/fs/cgroup")
STATE = Path("/state")
LIMIT = 64 << 20
PATIENCE_S = 240.0  # of an emulated machine
POWER_OFF = 0x4321FEDC
SPIN = "while True: pass"
FILL = "x = bytearray(256 << 20)"
SLEEP = "import time; time.sleep(600)"
ESCAPE = (
    "import os; os.sched_setaffinity(0, {0, 1}); print(len(os.sched_getaffinity(0)), flush=True)"
)


def main() -> None:
    """Mount, check, say what holds, and power off."""
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, target in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")):
        libc.mount(kind.encode(), target.encode(), kind.encode(), 0, None)
    libc.mount(b"cgroup2", str(ROOT).encode(), b"cgroup2", 0, None)
    try:
        _check()
    except BaseException:  # noqa: BLE001 - process 1 must not end
        traceback.print_exc()
    else:
        sys.stdout.write("all checks of the guest hold\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os.sync()
    libc.reboot(POWER_OFF)


def _check() -> None:
    STATE.mkdir()
    (STATE / "lease").write_text(str(time.monotonic() + 3600))
    tasks = Tasks(STATE, (0, 1), server="guest", accounts=Accounts("berth-jobs"))
    say("kernel", os.uname().release)
    say("controllers", (ROOT / "cgroup.controllers").read_text().strip())
    say("limits", tasks.limits())
    hold(tasks.limits() == {"memory": "control group", "cores": "control group"}, "both enforced")
    tasks.begin()
    _out_of_memory(tasks)
    _cores(tasks)
    _usage(tasks)
    _suspension(tasks)
    tasks.end()


def _out_of_memory(tasks: Tasks) -> None:
    task = _start(tasks, 1, FILL)
    ended = _ended(task)
    say("out of memory", ended)
    hold(ended["code"] == -9, "the kernel kills it")
    hold("at the limit of 64 MiB" in ended["message"], "the report says so")


def _cores(tasks: Tasks) -> None:
    task = _start(tasks, 2, ESCAPE, cores=(1,))
    hold(_ended(task)["code"] == 0, "it may ask for more cores")
    text = (task.directory / "stdout.0").read_text()
    say("cores after it asked for two", text.strip())
    hold(text == "1\n", "and stays on its own")


def _usage(tasks: Tasks) -> None:
    task = _start(tasks, 3, SPIN, cores=(0,))
    group = Path(_read(task, "order")["counters"]["pressure"])
    pid = _read(task, "started")["pid"]
    hold(str(pid) in (group / "cgroup.procs").read_text().split(), "it runs in its group")
    hold((group / "memory.max").read_text() == f"{LIMIT}\n", "its memory is limited")
    hold((group / "cpuset.cpus").read_text() == "0\n", "its cores are those of its units")
    sample = eventually(task.sample)
    say("usage", sample)
    hold(sample.cpu_share > 0.3, "its control group counts its time")
    hold(0 < sample.memory_bytes <= LIMIT, "and its memory")
    hold(sample.cpu_pressure is not None, "and the pressure in it")
    task.stop()
    hold(_ended(task)["reason"] == "stopped", "it is stopped")
    task.confirm_end()
    tasks.forget()
    hold(not group.exists(), "its group is removed")


def _suspension(tasks: Tasks) -> None:
    task = _start(tasks, 4, SPIN)
    group = Path(_read(task, "order")["counters"]["pressure"])
    _read(task, "started")
    task.suspend()
    eventually(lambda: task.suspension().is_suspended or None)
    hold("frozen 1" in (group / "cgroup.events").read_text().splitlines(), "it is frozen")
    before = _cpu_us(group)
    time.sleep(2.0)
    hold(_cpu_us(group) == before, "a suspended task does not run")
    task.resume()
    eventually(lambda: True if _cpu_us(group) > before else None)
    eventually(lambda: None if task.suspension().is_suspended else True)
    say("CPU time after it continues, µs", _cpu_us(group) - before)
    task.suspend()
    eventually(lambda: task.suspension().is_suspended or None)
    task.stop()
    hold(_ended(task)["reason"] == "stopped", "a suspended task can be stopped")


def _cpu_us(group: Path) -> int:
    """Return the CPU time of a control group."""
    fields = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(fields["usage_usec"])


def _start(tasks: Tasks, launch: int, code: str, cores: tuple[int, ...] = (0,)) -> Task:
    tasks.start(
        CommandOrder(
            launch=launch,
            job="j",
            name="n",
            is_running=False,
            stop=False,
            cores=cores,
            memory_bytes=LIMIT,
            command=(sys.executable, "-I", "-S", "-c", code),
            environment={},
        )
    )
    return tasks.get(launch)


def _read(task: Task, name: str) -> dict[str, Any]:
    found: dict[str, Any] = eventually(lambda: task.read(name))
    return found


def _ended(task: Task) -> dict[str, Any]:
    return _read(task, "exit")


def eventually(found: Callable[[], Any]) -> Any:
    """Wait for something, and return it."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if (value := found()) is not None:
            return value
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def hold(is_true: bool, what: str) -> None:
    """Stop with the name of a check that does not hold."""
    if not is_true:
        raise AssertionError(what)
    say("holds", what)


def say(what: str, value: object) -> None:
    """Print a line of the report."""
    sys.stdout.write(f"{what}: {value}\n")
    sys.stdout.flush()
