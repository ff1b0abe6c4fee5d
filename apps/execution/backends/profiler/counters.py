"""Counters of the kernel: CPU time of processes and cores, and waits for a core."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED: Final = 2  # of the ids of clocks that Linux gives to processes


class ThreadTimes(NamedTuple):
    """Seconds that a thread ran, and waited for a core."""

    ran_s: float
    waited_s: float


class CoreTimes(NamedTuple):
    """Seconds that cores were busy, and that the hypervisor took."""

    busy_s: float
    steal_s: float


@dataclass(frozen=True, slots=True)
class TreeTimes:
    """Times of a process and its descendants; wait_s is None with several threads."""

    cpu_s: float
    wait_s: float | None


def thread_times(pid: int) -> ThreadTimes:
    """Return the times of the first thread of a process, which may have ended but not be reaped.

    Raises
    ------
    OSError : no such process.
    """
    ran, waited, _ = (_PROC / str(pid) / "schedstat").read_text().split()
    return ThreadTimes(int(ran) / 1e9, int(waited) / 1e9)


def tree_times(pid: int) -> TreeTimes:
    """Return the times of a process with its descendants, ended ones included.

    Raises
    ------
    OSError : no such process.
    """
    family = [pid, *_descendants(pid)]
    threads, cpu_s = 0, 0.0
    for member in family:
        with suppress(OSError):  # a descendant that ends meanwhile is counted by its parent
            cpu_s += time.clock_gettime((~member << 3) | _CPUCLOCK_SCHED) + _reaped_s(member)
            threads += len(os.listdir(_PROC / str(member) / "task"))
    return TreeTimes(cpu_s, thread_times(pid).waited_s if threads == 1 else None)


def core_times(cpus: frozenset[int]) -> CoreTimes:
    """Return the times of cores together, in ticks of the kernel."""
    names = {f"cpu{cpu}" for cpu in cpus}
    busy = steal = 0
    for line in (_PROC / "stat").read_text().splitlines():
        name, *fields = line.split()
        if name in names:
            user, nice, system, _idle, _wait, irq, soft, stolen = map(int, fields[:8])
            busy += user + nice + system + irq + soft
            steal += stolen
    return CoreTimes(busy / TICKS_PER_S, steal / TICKS_PER_S)


def _descendants(process: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(_PROC / str(process) / "task"):
            text = (_PROC / str(process) / "task" / thread / "children").read_text()
            for child in map(int, text.split()):
                found += [child, *_descendants(child)]
    return found


def _reaped_s(pid: int) -> float:
    """Return the CPU seconds of the children that a process has reaped."""
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / TICKS_PER_S
