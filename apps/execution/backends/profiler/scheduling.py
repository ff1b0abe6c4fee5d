"""Scheduling classes of a profile: real-time where the machine permits it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from apps.execution.backends.agent.command import PR_SET_PDEATHSIG, preload

PROGRAM, STRESSOR, PROFILER = 1, 2, 3  # real-time priorities; the highest runs first
REFUSED: Final = "this account may not use SCHED_FIFO (CAP_SYS_NICE), so other programs disturb"


@dataclass(frozen=True, slots=True)
class Priority:
    """How the processes of a profile are scheduled.

    Attributes
    ----------
    program_cpus : cores of the program
    is_realtime : SCHED_FIFO keeps other programs off the cores, but for the share that the kernel
        reserves for them (/proc/sys/kernel/sched_rt_runtime_us)
    note : why it is not real-time; empty if it is, or was not asked for
    """

    program_cpus: tuple[int, ...]
    is_realtime: bool
    note: str = ""

    def raise_stressor(self, pid: int) -> None:
        """Let a stressor pass the program: its own duty cycle limits its share."""
        if self.is_realtime:
            os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(STRESSOR))

    def raise_reference(self, pid: int) -> None:
        """Let the reference pass program and stressor: it needs less than 1 % of the core."""
        if self.is_realtime:
            os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(PROFILER))

    @contextmanager
    def handed_down(self) -> Iterator[None]:
        """Let a process that starts meanwhile begin with the profiler's own priority.

        Otherwise it waits for other programs before it can set its own, and these waits count.
        """
        if not self.is_realtime:
            yield
            return
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PROFILER))
        try:
            yield
        finally:
            _set(os.SCHED_FIFO, PROFILER)

    def apply_to_program(self) -> None:
        """Pin the calling process, which becomes the program, and raise its priority.

        It ends with the profiler, however that ends.
        """
        preload().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.sched_setaffinity(0, self.program_cpus)
        if self.is_realtime:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PROGRAM))


def request(program_cpus: tuple[int, ...], *, is_wanted: bool) -> Priority:
    """Raise the profiler itself if it may, and return how the others are scheduled."""
    if not is_wanted:
        return Priority(program_cpus, is_realtime=False)
    try:
        _set(os.SCHED_FIFO, PROFILER)
    except PermissionError:
        return Priority(program_cpus, is_realtime=False, note=REFUSED)
    return Priority(program_cpus, is_realtime=True)


def restore() -> None:
    """Give the profiler its ordinary priority again."""
    _set(os.SCHED_OTHER, 0)


def _set(policy: int, priority: int) -> None:
    """Set the class of this process; what it starts does not inherit it."""
    os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
