"""The lease of an agent: until when its tasks may run, as their supervisors read it.

Standard library only, and no other module of this project.
"""

import time
from pathlib import Path


def lease_clock_s() -> float:
    """Return the seconds since the machine was started, with those in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write_lease(path: Path, until_s: float) -> None:
    """Store the time until which tasks may run; also works on a full disk."""
    text = f"{until_s:020.3f}"
    new = path.with_suffix(".new")
    try:
        new.write_text(text)
        new.replace(path)
    except OSError:
        # as long as the text before, so it needs no room
        with path.open("r+") as stream:
            stream.write(text)


def read_lease(path: str) -> float:
    """Return the second of `lease_clock_s` at which the lease ends; 0 if there is none."""
    try:
        with open(path) as stream:
            return float(stream.read())
    except (OSError, ValueError):
        return 0.0
