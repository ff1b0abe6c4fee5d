"""File systems of this machine, and copies of them by overlayfs; needs CAP_SYS_ADMIN."""

import ctypes
import os
import re
from pathlib import Path
from typing import Final

from apps.execution.backends.agent.command import preload

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_OF_THE_KERNEL: Final = ("/proc", "/sys", "/dev")  # a copy gets new ones
_WITHOUT_FILES: Final = frozenset({"nsfs", "autofs", "cgroup", "cgroup2", "mqueue"})


def check(result: int, call: str) -> None:
    """Raise the error of a system call that has failed.

    Raises
    ------
    OSError : names the call.
    """
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system.

    Raises
    ------
    OSError : the kernel refuses.
    """
    texts = (source.encode(), target.encode(), kind.encode() or None)
    done = preload().mount(*texts, ctypes.c_ulong(flags), options.encode() or None)
    check(done, f"mount {kind or source} at {target}")


def file_systems() -> list[str]:
    """Return where file systems with files are mounted, parents first."""
    return mount_points(Path("/proc/self/mountinfo").read_text())


def mount_points(text: str) -> list[str]:
    """Read mount points from the kernel's list; see proc(5)."""
    places = set()
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        place = _OCTAL.sub(lambda found: chr(int(found[1], 8)), before.split()[4])
        is_ours = after.split()[0] not in _WITHOUT_FILES
        if is_ours and not any(f"{place}/".startswith(f"{top}/") for top in _OF_THE_KERNEL):
            places.add(place)
    return sorted(places, key=lambda place: (place.count("/") if place != "/" else 0, place))


def mount_copy(place: str, root: str, layers: str) -> None:
    """Mount a copy of a file system below a root; read-only where overlayfs cannot copy it.

    Parameters
    ----------
    place : where it is mounted
    layers : beginning of the paths of the directories ``.upper`` and ``.work``

    Raises
    ------
    OSError : neither is possible.
    """
    target = root if place == "/" else f"{root}{place}"
    if not os.path.lexists(target):
        return  # another file system is mounted over it
    if os.path.isdir(place):
        layout = {
            "lowerdir": place,
            "upperdir": f"{layers}.upper",
            "workdir": f"{layers}.work",
        }
        options = ",".join(f"{name}={_escaped(path)}" for name, path in layout.items())
        try:
            mount("overlay", target, "overlay", 0, options)
        except OSError:
            if place == "/":
                raise
        else:
            return
    mount(place, target, "", MS_BIND)
    mount("none", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY)


def _escaped(path: str) -> str:
    return re.sub(r"([\\,:])", r"\\\1", path)
