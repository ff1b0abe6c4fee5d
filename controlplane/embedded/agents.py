"""Agents on this machine, and short real programs as their demo: `./dev run --backend agent`."""

import os
import pwd
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from controlplane.embedded.fleet import Service
from controlplane.embedded.instance import PROJECT
from controlplane.embedded.processes import LauncherError

AGENTS: Final = ("box-1", "box-2", "box-3")
AT_A_TIME: Final = 4
REGISTER_S: Final = 60.0
CLIENT: Final = ("-m", "controlplane.cli.main")
_PRIMES: Final = "print([n for n in range(2, 3000) if all(n % d for d in range(2, n))])"
_HASH: Final = "import hashlib as h; print(h.pbkdf2_hmac('sha256', b'a', b'b', 500000).hex())"
# Every Debian has these programs. None takes more than some seconds.
PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    "uname": ("uname", "-a"),
    "cpus": ("nproc",),
    "disk": ("df", "-h", "/"),
    "memory": ("cat", "/proc/meminfo"),
    "date": ("date", "--utc"),
    "environment": ("env",),
    "count": ("seq", "1", "20000"),
    "sleep": ("sleep", "2"),
    "checksum": ("sha256sum", sys.executable),
    "list": ("find", "/usr/share", "-maxdepth", "1"),
    "words": ("wc", "/etc/services"),
    "sorted": ("sort", "-r", "/etc/passwd"),
    "compress": ("sh", "-c", "seq 1 300000 | gzip -9 | wc -c"),
    "sum": ("awk", "BEGIN { for (i = 0; i < 3000000; i++) s += i; printf \"%.0f\\n\", s }"),
    "primes": (sys.executable, "-c", _PRIMES),
    "hash": (sys.executable, "-c", _HASH),
    "json": (sys.executable, "-c", "import json; print(len(json.dumps(list(range(500000)))))"),
    "warning": ("sh", "-c", "echo on stdout; echo on stderr >&2"),
    "progress": ("sh", "-c", "for i in 1 2 3 4 5; do echo step $i of 5; sleep 0.5; done"),
    "fails": ("sh", "-c", "echo 'this one fails on purpose' >&2; exit 3"),
}  # fmt: skip


def agent(name: str, home: Path, url: str) -> Service:
    """Return the agent of one of the machines that this machine plays."""
    account = pwd.getpwuid(os.geteuid()).pw_name
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // len(AGENTS)
    return Service(
        name,
        (
            *("controlplane.cli.main", "agent", "--server", name, "--url", url),
            *("--state", str(state_of(name, home)), "--user", account, "--memory", str(memory)),
        ),
    )


def state_of(name: str, home: Path) -> Path:
    """Return the directory of an agent."""
    return home / "agents" / name


def environment_of_agents() -> dict[str, str]:
    """Return the variables of the agents: none of the addresses and secrets of the instance."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    return {**found, "PYTHONPATH": str(PROJECT), "PYTHONUNBUFFERED": "1"}


def enrol(name: str, home: Path, environment: dict[str, str]) -> None:
    """Enrol a machine, unless it is enrolled.

    Raises
    ------
    LauncherError : the control plane refuses.
    """
    state = state_of(name, home)
    if (state / "credential").exists():
        return
    state.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, *CLIENT, "agent", "enrol", "--server", name, "--state", str(state)),
    ]
    done = subprocess.run(  # noqa: S603 - our own program
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise LauncherError(f"{name} could not be enrolled: {done.stderr.strip()}")


def run_programs() -> int:
    """Run all programs with `berth run`, a few at a time; print one line for each."""
    await_machines()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for line in pool.map(_run_program, PROGRAMS):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    return 0


def await_machines() -> None:
    """Wait until all agents have registered, for a minute: no command is accepted before."""
    until = time.monotonic() + REGISTER_S
    while time.monotonic() < until and not all(map(_is_registered, AGENTS)):
        time.sleep(0.5)


def _is_registered(name: str) -> bool:
    command = [sys.executable, *CLIENT, "servers", name]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603 - our own program


def _run_program(name: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, *CLIENT, "run", "--name", name, "--app", name, "--", *PROGRAMS[name]],
        capture_output=True,
        text=True,
        check=False,
    )
    first = (done.stdout or done.stderr.rpartition("berth: job ")[2]).strip().split("\n")[0]
    return f"{name}: exit code {done.returncode}, {len(done.stdout)} bytes: {first[:60]}"


if __name__ == "__main__":
    sys.exit(run_programs())
