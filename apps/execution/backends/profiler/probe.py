"""Profiles the copy of a job's command: `python -m apps.execution.backends.profiler.probe FILE`.

The agent writes the file. The report is the only line on the standard output; what the copy writes
is discarded.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from apps.execution.backends.profiler.accounts import Account
from apps.execution.backends.profiler.machine import UnfitMachineError
from apps.execution.backends.profiler.program import NoProgressError
from apps.execution.backends.profiler.session import Settings, profile
from apps.profiling.core.ramp import ProbeFailedError
from apps.profiling.core.report import seal

NOT_PROFILED: Final = 1  # exit code


def settings_of(order: Mapping[str, Any], layers: Path) -> Settings:
    """Return what to measure, on the cores of this process.

    Raises
    ------
    KeyError : the account is unknown.
    """
    return Settings(
        command=order["command"],
        stressors=order["stressors"],
        cpu=max(os.sched_getaffinity(0)),
        directory=order["directory"],
        window_s=order["window_s"],
        has_sandbox=True,
        layers=str(layers),
        environment=order["environment"],
        account=Account.of(order["user"]) if order["user"] else None,
    )


def main(path: Path) -> int:
    """Measure, and print the report; returns the exit code."""
    settings = settings_of(json.loads(path.read_text()), path.parent)
    steps = 1 + len(settings.stressors)  # the first is the noise
    begun = 0

    def tell(text: str) -> None:
        nonlocal begun
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - the log of the job
        with open(os.environ["BERTH_PROGRESS"], "a") as progress:
            progress.write(f"{begun / steps:.4f}\n")
        begun += 1

    try:
        found = profile(settings, tell)
    except (UnfitMachineError, NoProgressError, ProbeFailedError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - the reason for the control plane
        return NOT_PROFILED
    print(json.dumps(seal(found.report(settings), None), allow_nan=False))  # noqa: T201 - see above
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
