"""What this machine has, and what it uses, as the kernel says."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apps.execution.core.agent.wire import MachineUsage

UNKNOWN_NETWORK_BPS: Final = 10**9  # if no network device says its speed
_PROC: Final = Path("/proc")
_CPUS: Final = Path("/sys/devices/system/cpu")
_NETWORKS: Final = Path("/sys/class/net")


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine as its operator describes it.

    Attributes
    ----------
    server : its name in the cluster
    state : directory of the agent
    cpus : numbers of the cores that jobs may use
    user : account that runs the commands; empty = the agent's own
    users : accounts that jobs may name instead
    memory_bytes : that jobs may use; None = all
    l3_described : cores of each L3 cache, for tests of a machine that is not at hand; empty = as
        the kernel says
    """

    server: str
    state: Path
    cpus: tuple[int, ...]
    user: str = ""
    users: tuple[str, ...] = ()
    memory_bytes: int | None = None
    rack: str = "machines"
    watts: tuple[float, float] = (0.0, 0.0)
    l3_described: tuple[tuple[int, ...], ...] = ()


def boot_id() -> str:
    """Return the id of this boot: the tasks of an earlier one have ended."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def usable_cpus() -> tuple[int, ...]:
    """Return the numbers of the cores that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def shape(
    cpus: tuple[int, ...], state: Path, *, memory_bytes: int | None = None
) -> dict[str, Any]:
    """Return what is registered: cores, sockets, memory, network and storage.

    Parameters
    ----------
    cpus : cores that jobs may use
    state : directory on the disk that jobs use
    memory_bytes : that jobs may use; None = all
    """
    disk = os.statvfs(state)
    return {
        "cores": len(cpus),
        "sockets": len({_socket(cpu) for cpu in cpus}),
        "memory_bytes": memory_bytes or _memory()[0],
        "network_bps": _network_bps(),
        "storage_bytes": max(1, disk.f_blocks * disk.f_frsize),
    }


def l3_groups(cpus: tuple[int, ...]) -> tuple[int, ...]:
    """Return the L3 cache of each core, numbered from 0; empty if it is one, or not known."""
    caches: dict[str, int] = {}
    groups = tuple(caches.setdefault(_l3(cpu), len(caches)) for cpu in cpus)
    return groups if len(caches) > 1 and "" not in caches else ()


def described_groups(
    cpus: tuple[int, ...], described: tuple[tuple[int, ...], ...]
) -> tuple[int, ...]:
    """Return what `l3_groups` would on the machine that is described.

    Parameters
    ----------
    described : cores of each L3 cache; together exactly ``cpus``

    Raises
    ------
    ValueError : a core is missing, named twice, or not one of ``cpus``.
    """
    named = [(cpu, group) for group, cores in enumerate(described) for cpu in cores]
    if sorted(cpu for cpu, _ in named) != sorted(cpus):
        raise ValueError(f"the L3 groups must name each of the cores {cpus} once")
    return tuple(dict(named)[cpu] for cpu in cpus) if len(described) > 1 else ()


def _l3(cpu: int) -> str:
    """Return the cores that share the L3 cache of a core; "" if it is not known."""
    for index in (_CPUS / f"cpu{cpu}/cache").glob("index*"):
        with suppress(OSError):
            if (index / "level").read_text().strip() == "3":
                return (index / "shared_cpu_list").read_text().strip()
    return ""


def _socket(cpu: int) -> str:
    with suppress(OSError):
        return (_CPUS / f"cpu{cpu}/topology/physical_package_id").read_text().strip()
    return "0"


def _memory() -> tuple[int, int]:
    """Return the total and the available bytes."""
    rows = dict(line.split(":", 1) for line in (_PROC / "meminfo").read_text().splitlines())
    total, available = (int(rows[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
    return total, available


def _network_bps() -> int:
    fastest = 0
    for device in _NETWORKS.iterdir() if _NETWORKS.is_dir() else ():
        with suppress(OSError, ValueError):  # a device that is down says no speed
            fastest = max(fastest, int((device / "speed").read_text()) * 10**6)
    return fastest or UNKNOWN_NETWORK_BPS


@dataclass(slots=True)
class UsageMeter:
    """Measures what the machine uses between two calls."""

    cpus: tuple[int, ...]
    state: Path
    busy: int = 0
    total: int = 0

    def read(self) -> MachineUsage:
        """Return the usage since the last call."""
        busy, total = self._ticks()
        spent, passed = busy - self.busy, total - self.total
        self.busy, self.total = busy, total
        memory, available = _memory()
        disk = os.statvfs(self.state)
        return MachineUsage(
            cpu_share=_share(spent, passed),
            memory_share=_share(memory - available, memory),
            storage_share=_share(disk.f_blocks - disk.f_bfree, disk.f_blocks),
        )

    def _ticks(self) -> tuple[int, int]:
        """Return the busy ticks of the cores, and all ticks."""
        names = {f"cpu{cpu}" for cpu in self.cpus}
        busy = total = 0
        for line in (_PROC / "stat").read_text().splitlines():
            name, *fields = line.split()
            if name in names:
                user, nice, system, idle, wait, *rest = (int(field) for field in fields[:8])
                total += user + nice + system + idle + wait + sum(rest)
                busy += user + nice + system + sum(rest)
        return busy, total


def _share(part: int, whole: int) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0
