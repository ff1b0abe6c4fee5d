"""Suspends the processes of a task: by the freezers of its control groups, or by signals.

Standard library only, as `supervisor` uses it.
"""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

FREEZERS = ("freezer.state", "cgroup.freeze")  # of control groups, version 1 and 2
WAITS_ON_DISK = "D"  # also a process that waits for its child to start a program (vfork)
STOPPED = frozenset("TtZX")  # states of threads: stopped, traced, or ended


def stop_processes(freezers: Sequence[str]) -> bool:
    """Stop all descendants of this process; return True once none of them runs.

    Parameters
    ----------
    freezers : files of the control groups that hold them; without any, signals stop them
    """
    for freezer in freezers:
        freeze(freezer, is_frozen=True)
    if freezers:
        return all(map(is_frozen, freezers))
    stopped: set[int] = set()
    while new := set(descendants(os.getpid())) - stopped:  # also those that they start meanwhile
        for process in new:
            send(process, signal.SIGSTOP)
        stopped |= new
    return all(map(is_stopped, stopped))


def continue_processes(freezers: Sequence[str]) -> None:
    """Continue what `stop_processes` has stopped, or was about to stop."""
    for freezer in freezers:
        freeze(freezer, is_frozen=False)
    for process in descendants(os.getpid()):
        send(process, signal.SIGCONT)


def send(process: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


def is_stopped(process: int) -> bool:
    """Return True once SIGSTOP has reached all threads of a process, or it has ended.

    A parent that waits for its child to start a program (vfork) cannot stop before the child
    goes on; it counts as stopped with the child.
    """
    states = thread_states(process)
    if WAITS_ON_DISK in states and (below := descendants(process)):
        return states <= STOPPED | {WAITS_ON_DISK} and all(map(is_stopped, below))
    return states <= STOPPED


def thread_states(process: int) -> set[str]:
    """Return the states of the threads of a process, in the kernel's letters."""
    states = set()
    with suppress(OSError):
        for stat in Path(f"/proc/{process}/task").glob("*/stat"):
            with suppress(OSError):  # the thread has ended
                states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states


def descendants(process: int) -> list[int]:
    """Return all descendants of a process: orphans stay below the supervisor."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children") as stream:
                for child in map(int, stream.read().split()):
                    found += [child, *descendants(child)]
    return found


def freeze(freezer: str, *, is_frozen: bool) -> None:
    """Stop or continue all processes of a control group."""
    words = ("FROZEN", "THAWED") if freezer.endswith(FREEZERS[0]) else ("1", "0")
    with open(freezer, "w") as stream:
        stream.write(words[0] if is_frozen else words[1])


def is_frozen(freezer: str) -> bool:
    """Return True once all processes of a control group are stopped."""
    if freezer.endswith(FREEZERS[0]):
        with open(freezer) as stream:
            return stream.read().strip() == "FROZEN"
    with open(os.path.join(os.path.dirname(freezer), "cgroup.events")) as stream:
        return "frozen 1" in stream.read().splitlines()
