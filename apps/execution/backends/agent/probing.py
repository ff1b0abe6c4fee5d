"""Orders to profile a copy of a command: the agent starts the profiler in place of the command.

The profiler needs this whole package, numpy and scipy; the agent itself imports none of them.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from apps.execution.core.port import CommandOrder

ROOT: Final = Path(__file__).resolve().parents[4]
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MODULE: Final = "apps.execution.backends.profiler.probe"


def is_possible() -> bool:
    """Return whether this installation has what the profiler needs."""
    is_package = (ROOT / f"{MODULE.replace('.', '/')}.py").is_file()
    return is_package and all(find_spec(name) for name in ("numpy", "scipy"))


def task_of(
    order: CommandOrder, environment: dict[str, str], directory: str, user: str
) -> dict[str, Any]:
    """Return the order of the profiler, as JSON of one task."""
    return {
        **(order.probe or {}),
        "command": list(order.command),
        "environment": environment,
        "directory": directory,
        "user": user,
    }


def command_of(file: Path) -> list[str]:
    """Return the command that profiles what a file says; it imports nothing of its directory."""
    return [sys.executable, "-P", "-m", MODULE, str(file)]


def environment_of(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of the profiler, which may run as root: nothing that a job sets."""
    ours = {name: text for name, text in environment.items() if name.startswith("BERTH_")}
    python = {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    return {"PATH": PATH, "LANG": "C.UTF-8", **python, **ours}
