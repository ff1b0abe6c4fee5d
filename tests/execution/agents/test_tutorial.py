"""The commands of docs/agents.md, in their order, with three agents on this machine."""

import os
import pwd
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.services import create_token, create_user
from apps.execution.models import ServerAgent
from apps.inventory.models import Server
from apps.workloads.models import Job
from tests.execution.agents.conftest import TIMEOUT_S, Machine, Site, eventually

pytestmark = pytest.mark.agent
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/agents.md"
NAMES = ("box-1", "box-2", "box-3")
Run = Callable[[str], str]


def blocks() -> list[str]:
    """Return the blocks of commands of the page."""
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", PAGE.read_text(), re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]


def environment(site: Site, directory: Path) -> dict[str, str]:
    """Return the variables of an admin's shell, with `berth` on its path."""
    links = directory / "bin"
    links.mkdir()
    (links / "berth").write_text(f'#!/bin/sh\nexec {sys.executable} -m controlplane.cli.main "$@"')
    (links / "berth").chmod(0o755)
    admin = create_user(username="admin", password=None, role=Role.ADMIN)
    account = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    return {
        "PATH": f"{links}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(directory),
        "BERTH_URL": site.url,
        "BERTH_TOKEN": create_token(user=admin, name="tutorial").secret,
        "JOB_USER": account,
    }


def is_running(pid: str) -> bool:
    """Return whether a process has not ended; its new parent may not have collected its status."""
    try:
        return bool(Path(f"/proc/{pid.strip()}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def run(site: Site, open_directory: Path) -> Iterator[Run]:
    """Return a runner of blocks, while the scheduler works; the agents end after the test."""
    shell = environment(site, open_directory)
    state = open_directory / "state"
    state.mkdir(mode=0o711)

    def run_block(block: str) -> str:
        here = block.replace("/var/lib/berth-agent", str(state))
        with (open_directory / "block.out").open("w+") as output:
            process = subprocess.Popen(  # noqa: S603 - commands of our own page
                ["/bin/bash", "-euo", "pipefail", "-c", here],
                cwd=open_directory, env=shell, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            until = time.monotonic() + 2 * TIMEOUT_S  # several commands
            while process.poll() is None and time.monotonic() < until:
                site.scheduler.work(for_s=0.2)
                time.sleep(0.05)  # without jobs, the call returns at once
            process.kill()
            output.seek(0)
            printed = output.read()
        logs = [path.read_text()[-1000:] for path in open_directory.glob("box-*.log")]
        assert process.returncode == 0, f"{here}: {printed} {logs}"
        return printed

    yield run_block
    for path in open_directory.glob("box-*.pid"):
        if is_running(path.read_text()):
            os.kill(int(path.read_text()), signal.SIGTERM)
    for name in NAMES:
        (state / name / "agent.log").touch()
        Machine(name, site.url, state / name).stop_everything()


def test_the_commands_of_the_page_lead_where_it_says(run: Run, open_directory: Path) -> None:
    variables, permit, enrol, start, wait, first, second, restart, revoke = blocks()
    assert re.findall(r"\w+(?==)", variables) == ["BERTH_URL", "BERTH_TOKEN", "JOB_USER"]
    run(permit)
    run(enrol)
    assert sorted(ServerAgent.objects.values_list("name", flat=True)) == list(NAMES)
    assert not list(open_directory.glob("*.token"))
    run(start)
    assert all(f"{name} " in run(wait) for name in NAMES)
    assert Server.objects.filter(backend="agent").count() == 3
    said = run(first)
    assert re.search(r"^hello from box-[123]$", said, re.MULTILINE)
    assert "wrong\n" in said
    assert said.endswith("exit code 3\n")
    assert "1\n2\n3\n" in run(second)
    assert "still here\n" in run(restart)
    assert Job.objects.get(name="survivor").launches.count() == 1
    assert "the control plane refuses this agent" in run(revoke)
    pid = (open_directory / "box-3.pid").read_text()
    eventually(lambda: not is_running(pid), "the agent of box-3 ends")
    assert ServerAgent.objects.get(name="box-3").revoked_at is not None
