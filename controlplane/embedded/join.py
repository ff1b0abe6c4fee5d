"""Commands that join the running instance: `./dev manage` and `./dev berth`."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from controlplane.embedded.instance import PROJECT, InstanceDirectory
from controlplane.embedded.processes import alive

# settings of the user that override those of the instance
CLIENT_SETTINGS = ("BERTH_URL", "BERTH_TOKEN")


def manage(arguments: Sequence[str]) -> NoReturn:
    """Become a management command, which then receives the signals itself."""
    command = [sys.executable, str(PROJECT / "manage.py"), *arguments]
    os.execve(sys.executable, command, running_environment())  # noqa: S606  (our own program)


def berth(arguments: Sequence[str]) -> int:
    """Run the command line client in this process; return its exit code."""
    os.environ.update(client_environment())
    from controlplane.cli.main import main  # noqa: PLC0415 - only this command needs it

    return main(arguments)


def running_environment() -> dict[str, str]:
    """Return the environment of the running instance, or of this process if none runs."""
    run = InstanceDirectory.here().load("run")
    is_running = "pid" in run and alive(run["pid"])
    return {**os.environ, **(run["environment"] if is_running else {})}


def client_environment() -> dict[str, str]:
    """Return the environment of the berth command: the user's settings override the instance's.

    The instance's token is only sent to the instance's address.
    """
    own = {name: os.environ[name] for name in CLIENT_SETTINGS if os.environ.get(name)}
    environment = running_environment()
    if own.get("BERTH_URL", environment.get("BERTH_URL")) != environment.get("BERTH_URL"):
        environment.pop("BERTH_TOKEN", None)
    return {**environment, **own}
