"""`berth agent install`: the agent as one file, and a systemd unit that runs it."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from controlplane.cli.agent_file import ROOT, build
from controlplane.cli.errors import CliError, Exit

PROGRAM: Final = Path("usr/local/lib/berth/berth-agent")
UNIT: Final = Path("etc/systemd/system/berth-agent.service")
SYSTEMD: Final = Path("/run/systemd/system")  # exists while systemd runs the machine
_TEXT: Final = """\
[Unit]
Description=Berth agent of {server}
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
Restart=always
RestartSec=2
# another agent has registered as this server: starting again would fence that one
RestartPreventExitStatus={fenced:d}
# the tasks outlive the agent, and its next start finds them
KillMode=process
TasksMax=infinity
OOMPolicy=continue

[Install]
WantedBy=multi-user.target
"""


def install(server: str, arguments: Sequence[str], *, root: Path = Path("/")) -> bool:
    """Write program and unit; start the unit if systemd runs this machine.

    Parameters
    ----------
    arguments : of `berth agent`
    root : of the files, for the image of another machine; nothing is started there

    Returns
    -------
    whether the unit was started

    Raises
    ------
    CliError : a file cannot be written, or systemd refuses.
    """
    program, unit = root / PROGRAM, root / UNIT
    command = [sys.executable, f"/{PROGRAM}", *arguments]
    try:
        for path in (program, unit):
            path.parent.mkdir(parents=True, exist_ok=True)
        if ROOT.is_file():  # this program is the single file
            shutil.copy(ROOT, program)
        else:
            build(program)
        unit.write_text(unit_text(server, command))
    except OSError as error:
        raise CliError("the agent was not installed", detail=str(error)) from error
    if root != Path("/") or not SYSTEMD.is_dir():
        return False
    for verb in (("daemon-reload",), ("enable", "--now", UNIT.name), ("restart", UNIT.name)):
        done = subprocess.run(["systemctl", *verb], check=False)  # noqa: S603, S607 - of the PATH
        if done.returncode:
            raise CliError(f"systemctl {' '.join(verb)} failed")
    return True


def unit_text(server: str, command: Sequence[str]) -> str:
    """Return the unit that runs a command; systemd reads `%` and `$` itself."""
    quoted = shlex.join(command).replace("%", "%%").replace("$", "$$")
    return _TEXT.format(server=server, command=quoted, fenced=Exit.CONFLICT)
