"""Windows of a real program next to a stressor: speed, and whether the reading is valid.

A window is a short time in which one stressor is on or off. Its speed counts only if the kernel's
own counters confirm it: the stressor pressed as long as it was told to, and other programs neither
kept the program waiting for a core nor used its cores. A pair counts only if a fixed loop on the
core was as fast in both windows: other guests of a host slow a core down without any counter.

Source: Paragon §2.3 (P3) compares with isolation; the windows and their checks are ours.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MIN_PRESSED: Final = 0.8  # of the share that the stressor was told to use
MAX_WHILE_OFF: Final = 0.05  # share of a core that a stressor may use while it is off
MAX_WAIT: Final = 0.05  # share of the window that other programs may keep this one waiting
MAX_FOREIGN: Final = 0.05  # share of the cores of program and stressor that others may use
MAX_STEAL: Final = 0.05  # share of those cores that the hypervisor may take
MAX_DIFFERENCE: Final = 0.25  # of a core: use by others near by, between the windows of a pair
MAX_CORE_CHANGE: Final = 0.08  # of the speed of the core itself, between the windows of a pair
TICK_S: Final = 0.01  # the kernel counts the time of a core in ticks; one may be missing per core
MIN_CPU_SHARE: Final = 0.02  # below it, speed per CPU second is a matter of rounding


class Basis(StrEnum):
    """Seconds that the work of a window is divided by.

    CPU: seconds in which the program ran: a slower cache or memory makes them longer, but waiting
    for a core does not. UNQUEUED: seconds in which it ran or was blocked, but did not wait for a
    core: also counts waits for a disk or a network. WALL: all seconds of the window.
    """

    CPU = "cpu"
    UNQUEUED = "unqueued"
    WALL = "wall"


class Fault(StrEnum):
    """Why a window, or a pair of windows, does not count."""

    ENDED = "the program ended"
    NO_PROGRESS = "the program made no progress"
    IDLE_PROGRAM = f"the program used less than {MIN_CPU_SHARE:.0%} of a core"
    UNKNOWN_WAITS = "the waits of a program with several threads or processes are unknown"
    IDLE_STRESSOR = f"the stressor pressed less than {MIN_PRESSED:.0%} of what it was told"
    BUSY_STRESSOR = "the stressor pressed although it was off"
    FOREIGN_WAIT = f"the program waited for others more than {MAX_WAIT:.0%} of the time"
    FOREIGN_USE = f"other programs used more than {MAX_FOREIGN:.0%} of the cores"
    STEAL = f"the hypervisor took more than {MAX_STEAL:.0%} of the cores"
    DIFFERENCE = "other programs used the cores near by in one window only"
    UNEVEN_CORE = f"the speed of the core itself changed by more than {MAX_CORE_CHANGE:.0%}"


@dataclass(frozen=True, slots=True)
class Window:
    """Readings over one window; all times in seconds.

    Attributes
    ----------
    work : work that the program did, in any unit
    cpu_s : CPU seconds of the program
    wait_s : run-queue wait of the program; None if it is unknown, as it is with several threads,
        which also wait for each other
    told : share of a core that the stressor was told to use; 0 if it was off
    pressed : share of the window in which it pressed its source
    shared_s : CPU seconds that the stressor took on the core of the program
    foreign_s : CPU seconds of others on the cores of the program and of the stressor
    steal_s : time of these cores that the hypervisor took
    nearby_s : CPU seconds of others on all cores that share a cache with the program
    cores : number of cores of the program and of the stressor
    loop_s : CPU seconds of a fixed loop on the core of the program; None if it did not run
    fault : why the reading itself failed
    """

    wall_s: float
    work: float
    cpu_s: float
    wait_s: float | None = 0.0
    told: float = 0.0
    pressed: float = 0.0
    shared_s: float = 0.0
    foreign_s: float = 0.0
    steal_s: float = 0.0
    nearby_s: float = 0.0
    cores: int = 1
    loop_s: float | None = None
    fault: Fault | None = None

    @property
    def foreign_wait_s(self) -> float | None:
        """Run-queue wait that the stressor does not explain."""
        return None if self.wait_s is None else max(0.0, self.wait_s - self.shared_s)

    def speed(self, basis: Basis) -> float:
        """Work per second.

        Raises
        ------
        ValueError : the window is not valid; its speed means nothing.
        """
        seconds = {
            Basis.CPU: self.cpu_s,
            Basis.UNQUEUED: self.wall_s - (self.wait_s or 0.0),
            Basis.WALL: self.wall_s,
        }[basis]
        if seconds <= 0.0 or self.work <= 0.0:
            raise ValueError(f"no work or no time in {self}")
        return self.work / seconds


def fault_of(window: Window, basis: Basis) -> Fault | None:
    """Return why a window does not count; None if it does."""
    return window.fault or _fault_of_program(window, basis) or _disturbance(window)


def fault_of_pair(on: Window, off: Window, basis: Basis) -> Fault | None:
    """Return why a pair of windows does not count; None if it does."""
    single = fault_of(on, basis) or fault_of(off, basis)
    if single:
        return single
    difference = abs(on.nearby_s / on.wall_s - off.nearby_s / off.wall_s)
    if difference > MAX_DIFFERENCE:
        return Fault.DIFFERENCE
    if on.loop_s and off.loop_s and abs(math.log(on.loop_s / off.loop_s)) > MAX_CORE_CHANGE:
        return Fault.UNEVEN_CORE
    return None


def _fault_of_program(window: Window, basis: Basis) -> Fault | None:
    if window.wall_s <= 0.0 or window.work <= 0.0:
        return Fault.NO_PROGRESS
    if basis is Basis.CPU and window.cpu_s < MIN_CPU_SHARE * window.wall_s:
        return Fault.IDLE_PROGRAM
    if basis is Basis.UNQUEUED and window.wait_s is None:
        return Fault.UNKNOWN_WAITS
    return None


def _disturbance(window: Window) -> Fault | None:
    wall_s, wait_s = window.wall_s, window.foreign_wait_s
    if window.told > 0.0 and window.pressed < MIN_PRESSED * window.told:
        return Fault.IDLE_STRESSOR
    if window.told == 0.0 and window.pressed > MAX_WHILE_OFF:
        return Fault.BUSY_STRESSOR
    if wait_s is not None and wait_s > MAX_WAIT * wall_s:
        return Fault.FOREIGN_WAIT
    if window.foreign_s > (MAX_FOREIGN * wall_s + TICK_S) * window.cores:
        return Fault.FOREIGN_USE
    if window.steal_s > (MAX_STEAL * wall_s + TICK_S) * window.cores:
        return Fault.STEAL
    return None
