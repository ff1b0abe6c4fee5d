"""`./dev run --backend agent`: twenty real programs on three agents, from the CLI to REST."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from benchmarks._instance import PROJECT, RunningInstance
from controlplane.embedded.agents import AGENTS, AT_A_TIME, PROGRAMS, await_machines
from tests.controlplane.test_run import wait_until

pytestmark = [pytest.mark.service, pytest.mark.agent]
FAILS = "fails"


@dataclass(frozen=True)
class Done:
    """What `berth run` returned and printed."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def instance() -> Iterator[RunningInstance]:
    """An instance with three agents on this machine, which has run the programs by itself."""
    found = RunningInstance(("--backend", "agent"))
    try:
        found.start()
        wait_until(lambda: "Programs finished" in found.output(), within_s=180.0)
        yield found
    finally:
        found.discard()


def berth_run(instance: RunningInstance, name: str) -> Done:
    """Run a program with `./dev berth run`, as a user does."""
    done = subprocess.run(  # noqa: S603 - our own program
        [
            *(sys.executable, "-m", "controlplane.embedded", "berth", "run"),
            *("--name", f"my-{name}", "--app", name, "--", *PROGRAMS[name]),
        ],
        cwd=PROJECT, env=instance.environment, capture_output=True, text=True, check=False,
        timeout=180,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def rest(instance: RunningInstance, path: str) -> bytes:
    request = urllib.request.Request(  # noqa: S310 - http, this machine
        f"{instance.url}/api/v1/{path}",
        headers={"Authorization": f"Bearer {instance.variable('BERTH_TOKEN')}"},
    )
    with urllib.request.urlopen(request, timeout=30.0) as answer:  # noqa: S310 - likewise
        return bytes(answer.read())


def results(instance: RunningInstance, path: str) -> Any:
    return json.loads(rest(instance, path))["results"]


def servers_of(instance: RunningInstance, job_id: str) -> set[str]:
    return {row["server"] for row in results(instance, f"jobs/{job_id}/placements/")}


def expected(of: dict[str, Any]) -> dict[str, Any]:
    """Return the values by program: one for those that succeed, and one for that which fails."""
    return {name: of["fails" if name == FAILS else "succeeds"] for name in PROGRAMS}


def test_the_command_runs_twenty_programs_by_itself(instance: RunningInstance) -> None:
    lines = (instance.home / "logs" / "replay.log").read_text().splitlines()
    found = dict(re.findall(r"^(\w+): exit code (\d+)", line)[0] for line in lines)
    assert found == expected({"succeeds": "0", "fails": "3"})


def test_a_user_runs_twenty_programs_on_three_agents(instance: RunningInstance) -> None:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        done = dict(
            zip(PROGRAMS, pool.map(lambda n: berth_run(instance, n), PROGRAMS), strict=True)
        )
    assert len(done) == 20
    codes = {name: each.code for name, each in done.items()}
    assert codes == expected({"succeeds": 0, "fails": 3}), done
    # the output is that of the programs
    assert done["uname"].stdout == subprocess.check_output(["uname", "-a"], text=True)  # noqa: S607
    assert done["count"].stdout.splitlines() == [str(n) for n in range(1, 20001)]
    assert done["sum"].stdout == "4499998500000\n"
    assert done["progress"].stdout.splitlines()[-1] == "step 5 of 5"
    assert (done["warning"].stdout, "on stderr\n" in done["warning"].stderr) == (
        "on stdout\n",
        True,
    )
    assert "this one fails on purpose\n" in done[FAILS].stderr
    # and REST has them finished, with the same output
    rows = {
        row["metadata"]["name"].removeprefix("my-"): row
        for row in results(instance, "jobs/?limit=100")
        if row["metadata"]["name"].startswith("my-")
    }
    states = {name: row["status"]["state"] for name, row in rows.items()}
    assert states == expected({"succeeds": "succeeded", "fails": "failed"})
    ids = {name: row["metadata"]["id"] for name, row in rows.items()}
    for stream in ("stdout", "stderr"):
        stored = {
            name: rest(instance, f"jobs/{job_id}/output/?stream={stream}").decode()
            for name, job_id in ids.items()
        }
        said = {name: getattr(each, stream) for name, each in done.items()}
        assert {name: text in said[name] for name, text in stored.items()} == dict.fromkeys(
            ids, True
        )
    used = set().union(*(servers_of(instance, job_id) for job_id in ids.values()))
    assert used == set(AGENTS)


def test_programs_wait_for_all_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answers(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[-1])
        return subprocess.CompletedProcess(command, 1 if asked == [AGENTS[0]] else 0)

    monkeypatch.setattr(subprocess, "run", answers)
    await_machines()
    assert asked == [AGENTS[0], *AGENTS]
