"""Limits of a task by the kernel's control groups, version 1 or 2, where the agent has the right.

What cannot be enforced is said: `Limits.enforced` holds a sentence for each limit.
"""

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from apps.execution.backends.agent.suspension import FREEZERS, freeze, send

ROOT: Final = Path("/sys/fs/cgroup")
PARENT: Final = "berth"
KILL_S: Final = 1.0
HIERARCHIES: Final = ("memory", "cpuset", "cpuacct", "freezer")  # of version 1


@dataclass(frozen=True, slots=True)
class Limits:
    """The control groups of one task.

    Attributes
    ----------
    joined : files to which a process writes its id to join
    oom_files : files that count its out-of-memory kills
    enforced : what limits each resource, or why nothing does
    counters : files that count what it uses: ``cpuacct`` or ``cpu_stat``, ``memory``; and the
        directory with its ``pressure``
    freezers : files that stop all its processes; none without the right: signals stop them
    """

    joined: list[str] = field(default_factory=list)
    oom_files: list[str] = field(default_factory=list)
    enforced: dict[str, str] = field(default_factory=dict)
    counters: dict[str, str] = field(default_factory=dict)
    freezers: list[str] = field(default_factory=list)


def limit(
    name: str, *, cpus: Iterable[int], memory_bytes: int | None, root: Path = ROOT
) -> Limits:
    """Create the control groups of a task, or change their limits.

    Parameters
    ----------
    name : unique on this machine
    memory_bytes : None = not limited yet
    root : where the hierarchies are mounted
    """
    limits = Limits()
    listed = ",".join(str(cpu) for cpu in cpus)
    is_unified = (root / "cgroup.controllers").exists()
    memory = root if is_unified else root / "memory"
    with _said(limits, "memory"):
        group = _made(memory, name, "+memory" if is_unified else "")
        if memory_bytes is not None:
            _limit_memory(group, memory_bytes, is_unified=is_unified)
        limits.joined.append(str(group / "cgroup.procs"))
        counter = "memory.events" if is_unified else "memory.oom_control"
        limits.oom_files.append(str(group / counter))
        usage = "memory.current" if is_unified else "memory.usage_in_bytes"
        limits.counters["memory"] = str(group / usage)
        if is_unified:
            limits.counters.update(cpu_stat=str(group / "cpu.stat"), pressure=str(group))
            limits.freezers.append(str(group / FREEZERS[1]))
    if not is_unified:
        with suppress(OSError):  # without it, signals stop the processes
            group = _made(root / "freezer", name, "")
            limits.joined.append(str(group / "cgroup.procs"))
            limits.freezers.append(str(group / FREEZERS[0]))
        with suppress(OSError):  # it counts only
            group = _made(root / "cpuacct", name, "")
            limits.joined.append(str(group / "cgroup.procs"))
            limits.counters["cpuacct"] = str(group / "cpuacct.usage")
    cpuset = root if is_unified else root / "cpuset"
    with _said(limits, "cores"):
        group = _made(cpuset, name, "+cpuset" if is_unified else "")
        if not is_unified:
            _inherit_cpusets(cpuset, group)
        (group / "cpuset.cpus").write_text(listed)
        if str(group / "cgroup.procs") not in limits.joined:
            limits.joined.append(str(group / "cgroup.procs"))
    return limits


def _limit_memory(group: Path, memory_bytes: int, *, is_unified: bool) -> None:
    limit_file = "memory.max" if is_unified else "memory.limit_in_bytes"
    (group / limit_file).write_text(str(memory_bytes))
    with suppress(OSError):  # without swap accounting the file is absent
        swap = "memory.swap.max" if is_unified else "memory.memsw.limit_in_bytes"
        (group / swap).write_text("0" if is_unified else str(memory_bytes))


def names(prefix: str, *, root: Path = ROOT) -> set[str]:
    """Return the names of all control groups of tasks that begin so."""
    parents = (root / PARENT, *(root / hierarchy / PARENT for hierarchy in HIERARCHIES))
    return {group.name for parent in parents for group in parent.glob(f"{prefix}*/")}


def remove(name: str, *, root: Path = ROOT) -> bool:
    """Remove the control groups of a task that has ended; return True if none is left."""
    is_left = False
    for parent in (root, *(root / hierarchy for hierarchy in HIERARCHIES)):
        group = parent / PARENT / name
        for file in FREEZERS:
            if (group / file).exists():  # frozen processes cannot end
                freeze(str(group / file), is_frozen=False)
        with suppress(OSError):
            group.rmdir()
        is_left |= group.exists()
    return not is_left


def kill(joined: Iterable[str], freezers: Iterable[str]) -> None:
    """Kill all processes of the control groups of a task, and wait a little for their end.

    Parameters
    ----------
    joined, freezers : of its `Limits`
    """
    files, until = [Path(path) for path in joined], time.monotonic() + KILL_S
    while (left := _members(files)) and time.monotonic() < until:
        for freezer in freezers:  # frozen processes cannot end
            with suppress(OSError):
                freeze(freezer, is_frozen=False)
        for process in left:
            send(process, signal.SIGKILL)
        time.sleep(KILL_S / 100)


def _members(files: Iterable[Path]) -> set[int]:
    found: set[int] = set()
    for file in files:
        with suppress(OSError):  # the group is gone
            found.update(map(int, file.read_text().split()))
    return found


@contextmanager
def _said(limits: Limits, resource: str) -> Iterator[None]:
    """Record whether a limit could be set."""
    try:
        yield
    except OSError as error:
        limits.enforced[resource] = f"not enforced: {error.strerror}"
    else:
        limits.enforced[resource] = "control group"


def _made(hierarchy: Path, name: str, controller: str) -> Path:
    """Make the group of a task below the common parent.

    Raises
    ------
    OSError : no right, or no such controller.
    """
    if not hierarchy.is_dir():
        raise FileNotFoundError(2, f"{hierarchy} is not mounted")
    parent = hierarchy / PARENT
    parent.mkdir(exist_ok=True)
    if controller:
        for directory in (hierarchy, parent):
            (directory / "cgroup.subtree_control").write_text(controller)
    group = parent / name
    group.mkdir(exist_ok=True)
    return group


def _inherit_cpusets(hierarchy: Path, group: Path) -> None:
    """Give a cpuset of version 1, which begins empty, what its parent has."""
    for directory in (group.parent, group):
        for file in ("cpuset.cpus", "cpuset.mems"):
            if not (directory / file).read_text().strip():
                (directory / file).write_text((directory.parent / file).read_text())
