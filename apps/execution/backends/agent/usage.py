"""Measures what one task uses: its threads, its control group, and the pressure around it."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apps.execution.backends.agent.suspension import descendants
from apps.execution.backends.agent.waits import WaitSamples
from apps.execution.core.agent.usage import (
    TAIL_BYTES,
    ProgressRate,
    ThreadTimes,
    ran_s,
    read_progress,
    shares,
)
from apps.execution.core.agent.wire import TaskSample

FIRST_S: Final = 1.0  # between the first reading and the first sample
SAMPLE_S: Final = 10.0
PRESSURES: Final = ("cpu", "memory", "io")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc")


@dataclass(slots=True)
class Reading:
    """Counters of the kernel for a task, at a second of the monotonic clock."""

    at_s: float
    threads: dict[int, ThreadTimes]
    group_s: float | None  # CPU seconds of its control group, ended processes included
    memory_bytes: int
    stalled_s: dict[str, float]  # seconds in which something waited, by resource


class TaskMeter:
    """Measures one task between two samples.

    Parameters
    ----------
    order : of the task, as its supervisor reads it
    supervisor : id of its supervisor, the ancestor of all its processes
    started_s : second of the monotonic clock at which its command started
    """

    def __init__(self, order: dict[str, Any], *, supervisor: int, started_s: float) -> None:
        self._order, self._supervisor = order, supervisor
        self._rate = ProgressRate(started_s)
        self._last = self._read()
        self._due_s = self._last.at_s + FIRST_S
        self._is_paused = False
        self._waits = WaitSamples()

    def pause(self) -> None:
        """Leave out the time until the next sample: the task is suspended."""
        self._is_paused = True

    def sample(self, launch: int, *, suspended_s: float = 0.0) -> TaskSample | None:
        """Return what the task used since the last sample; None if the next is not due.

        Parameters
        ----------
        suspended_s : wall seconds in which the task was suspended, which do not count as run
        """
        if self._is_paused:
            self._last, self._is_paused = self._read(), False
            self._due_s = self._last.at_s + FIRST_S
        self._waits.sample(descendants(self._supervisor))
        if time.monotonic() < self._due_s:
            return None
        before, now = self._last, self._read()
        elapsed_s = now.at_s - before.at_s
        self._last, self._due_s = now, now.at_s + SAMPLE_S
        used_s = ran_s(before.threads, now.threads)
        if now.group_s is not None and before.group_s is not None:
            used_s = now.group_s - before.group_s
        split = shares(before.threads, now.threads, elapsed_s=elapsed_s)
        progress, ran_until_s = self._progress(), now.at_s - suspended_s
        (disk, network), self._waits = self._waits.shares(), WaitSamples()
        pressure = {
            name: _share(now.stalled_s[name] - before.stalled_s[name], elapsed_s)
            for name in now.stalled_s.keys() & before.stalled_s.keys()
        }
        if self._has_own_pressure():
            disk = pressure.get("io", disk)
        return TaskSample(
            launch=launch,
            cpu_share=_share(used_s, elapsed_s * len(self._order["cpus"])),
            run_wait=split.run_wait if split else None,
            blocked=split.blocked if split else None,
            memory_bytes=now.memory_bytes,
            cpu_pressure=pressure.get("cpu"),
            memory_pressure=pressure.get("memory"),
            io_pressure=pressure.get("io"),
            disk_wait=disk,
            network_wait=network,
            progress=progress,
            progress_per_s=None if progress is None else self._rate.per_s(ran_until_s, progress),
        )

    def _read(self) -> Reading:
        processes = descendants(self._supervisor)
        threads: dict[int, ThreadTimes] = {}
        for process in processes:
            with suppress(OSError):  # it has ended
                for thread in os.listdir(_PROC / str(process) / "task"):
                    with suppress(OSError):
                        path = _PROC / str(process) / "task" / thread / "schedstat"
                        ran, waited, _ = path.read_text().split()
                        threads[int(thread)] = ThreadTimes(int(ran), int(waited))
        counters = self._order.get("counters", {})
        memory = _number(counters.get("memory", ""))
        return Reading(
            at_s=time.monotonic(),
            threads=threads,
            group_s=_group_s(counters),
            memory_bytes=sum(map(_resident, processes)) if memory is None else memory,
            stalled_s={
                name: stalled
                for name in PRESSURES
                if (stalled := _stalled_s(name, counters.get("pressure", ""))) is not None
            },
        )

    def _has_own_pressure(self) -> bool:
        """Return True if the kernel counts the waits of its control group."""
        group = self._order.get("counters", {}).get("pressure", "")
        return bool(group) and (Path(group) / "io.pressure").exists()

    def _progress(self) -> float | None:
        with suppress(OSError):
            # a command of the agent's own account may have put anything in its place
            file = os.open(self._order.get("progress", ""), os.O_RDONLY | os.O_NONBLOCK)
            try:
                begin = max(0, os.fstat(file).st_size - TAIL_BYTES)
                return read_progress(os.pread(file, TAIL_BYTES, begin).decode(errors="replace"))
            finally:
                os.close(file)
        return None


def _resident(process: int) -> int:
    with suppress(OSError):
        return int((_PROC / str(process) / "statm").read_text().split()[1]) * PAGE
    return 0


def _number(path: str) -> int | None:
    with suppress(OSError, ValueError):
        return int(Path(path).read_text())
    return None


def _group_s(counters: dict[str, str]) -> float | None:
    """Return the CPU seconds of the control group: of version 1 or 2."""
    nanoseconds = _number(counters.get("cpuacct", ""))
    if nanoseconds is not None:
        return nanoseconds / 1e9
    with suppress(OSError):
        for line in Path(counters.get("cpu_stat", "")).read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "usage_usec":
                return int(value) / 1e6
    return None


def _stalled_s(resource: str, group: str) -> float | None:
    """Return the seconds in which some process waited: of the control group, else anywhere."""
    for path in (Path(group) / f"{resource}.pressure", _PROC / "pressure" / resource):
        with suppress(OSError):
            some = path.read_text().splitlines()[0]
            return int(some.rpartition("total=")[2]) / 1e6
    return None


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0.0 else 0.0
