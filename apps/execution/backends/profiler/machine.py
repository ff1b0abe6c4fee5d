"""The machine as a profile sees it: caches, cores that share one, and facts for the report."""

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_CPUS: Final = Path("/sys/devices/system/cpu")
_UNITS: Final = {"K": 10, "M": 20, "G": 30}


class UnfitMachineError(Exception):
    """The machine lacks something that profiling needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Caches:
    """Bytes of the caches of one core, and the cores that share its last level."""

    l1d: int = 32 << 10
    l2: int = 1 << 20
    llc: int = 32 << 20
    shared_by: tuple[int, ...] = ()
    is_known: bool = False


def caches(cpu: int) -> Caches:
    """Return the caches of a core; common sizes if the kernel does not say them."""
    sizes: dict[str, int] = {}
    shared_by = tuple(sorted(os.sched_getaffinity(0)))
    for index in sorted((_CPUS / f"cpu{cpu}/cache").glob("index*")):
        with suppress(OSError, ValueError):
            level, kind = _text(index / "level"), _text(index / "type")
            if kind == "Instruction":
                continue
            sizes[level] = _bytes(_text(index / "size"))
            if int(level) >= 3:
                shared_by = cpu_list(_text(index / "shared_cpu_list"))
    if not {"1", "2"} <= sizes.keys():
        return Caches(shared_by=shared_by)
    return Caches(sizes["1"], sizes["2"], sizes[max(sizes)], shared_by, is_known=True)


def other_core(cpu: int) -> int | None:
    """Return a core next to this one that shares its cache, not its physical core."""
    siblings = {cpu}
    with suppress(OSError, ValueError):
        siblings |= set(cpu_list(_text(_CPUS / f"cpu{cpu}/topology/thread_siblings_list")))
    usable = os.sched_getaffinity(0) - siblings
    near = [core for core in caches(cpu).shared_by if core in usable]
    return min(near or usable, default=None)


def require_counters() -> None:
    """Raise if the kernel does not count what the checks of windows need."""
    if not Path("/proc/self/schedstat").exists():
        raise UnfitMachineError("the kernel does not offer /proc/PID/schedstat")


def facts(cpus: tuple[int, ...]) -> dict[str, Any]:
    """Return what another installation needs to judge a profile of this machine."""
    model = ""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                model = line.partition(":")[2].strip()
                break
    found = caches(cpus[0])
    return {
        "processor": model or platform.machine(),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "l1d_bytes": found.l1d,
        "l2_bytes": found.l2,
        "llc_bytes": found.llc,
        "llc_shared_by": list(found.shared_by),
        "cache_sizes_are_known": found.is_known,
        "is_virtual": "hypervisor" in _flags(),
    }


def pressure() -> float | None:
    """Return the share of the last ten seconds in which something waited for a core."""
    with suppress(OSError, ValueError):
        some = Path("/proc/pressure/cpu").read_text().splitlines()[0]
        return float(some.split()[1].removeprefix("avg10=")) / 100.0
    return None


def cpu_list(text: str) -> tuple[int, ...]:
    """Read a list of cores in the kernel's form, such as 0-3,6."""
    cores: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        cores.update(range(int(first), int(last if dash else first) + 1))
    return tuple(sorted(cores))


def _flags() -> list[str]:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return line.split()
    return []


def _text(path: Path) -> str:
    return path.read_text().strip()


def _bytes(text: str) -> int:
    return int(text[:-1]) << _UNITS[text[-1]] if text[-1] in _UNITS else int(text)
