"""The commands of docs/slurm.md, in their order, against a Slurm that has no hook yet."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connection
from pytest_django import Settings

from apps.accounts.services import ensure_project
from apps.execution.backends.slurm.commands import Slurm
from apps.inventory.models import Cluster, Server
from apps.scheduling.services.agent import make_agent
from apps.workloads.models import Job
from tests.execution.slurm.cluster import NODES, SlurmCluster, SlurmStartError
from tests.execution.slurm.conftest import a_cluster, require_slurm

pytestmark = pytest.mark.slurm
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/slurm.md"


def blocks() -> list[str]:
    """Return the blocks of commands of the page."""
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", PAGE.read_text(), re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]


@pytest.fixture(scope="module")
def plain() -> Iterator[SlurmCluster]:
    """A cluster as its administrator has it."""
    require_slurm()
    yield from a_cluster("")


def environment(plain: SlurmCluster, tmp_path: Path) -> dict[str, str]:
    """Return the variables of a shell of the administrator, on the database of this test."""
    address = urlsplit(os.environ["DATABASE_URL"])
    name = str(connection.settings_dict["NAME"])
    links = tmp_path / "bin"
    links.mkdir()
    (links / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (links / "python").chmod(0o755)
    return {
        **os.environ,
        **plain.environment,
        "PATH": f"{links}:{plain.environment['PATH']}",
        "DATABASE_URL": urlunsplit(address._replace(path=f"/{name}")),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.test",
    }


def run_block(block: str, *, shell: dict[str, str], at: Path) -> str:
    """Run a block with files in a directory of the test; returns what it prints."""
    here = block.replace("/run/berth-slurm", str(at / "alive"))
    here = here.replace("/tmp/berth-tutorial.out", str(at / "out"))  # noqa: S108
    # a backend in the background must not keep the pipe open
    here = re.sub(r" &$", f" >{at}/backend.log 2>&1 & echo $!", here, flags=re.MULTILINE)
    done = subprocess.run(  # noqa: S603 - commands of our own page
        ["/bin/bash", "-euo", "pipefail", "-c", here],
        cwd=ROOT, env=shell, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{here}: {done.stdout} {done.stderr}"
    return done.stdout


def until_or_told(
    plain: SlurmCluster, holds: Callable[[], object], what: str, *, at: Path
) -> None:
    """Wait until a function returns a true value; fail with what backend, Slurm and Berth tell."""
    try:
        plain.until(holds, what)
    except SlurmStartError as error:
        jobs = list(Job.objects.values("name", "state", "reason_code", "reason_message"))
        listed = plain.run("squeue", "--states=all", "-o", "%i %T %r %N")
        raise AssertionError(f"{(at / 'backend.log').read_text()}\n{listed}\n{jobs}") from error


def test_the_commands_of_the_page_lead_where_it_says(
    transactional_db: None, plain: SlurmCluster, settings: Settings, tmp_path: Path
) -> None:
    settings.BERTH_RATES = {}
    ensure_project("default")
    shell, scheduler = environment(plain, tmp_path), make_agent("scheduler-1")
    tmp_path.chmod(0o755)
    run = partial(run_block, shell=shell, at=tmp_path)
    start, show, install, submit, release, remove = blocks()
    pid = int(run(start).split()[-1])
    slurm = Slurm(plain.environment["SLURM_CONF"], plain.environment["PATH"])
    try:
        assert Cluster.objects.get().speed == 1.0
        plain.until(
            lambda: Server.objects.count() == len(NODES) or not Path(f"/proc/{pid}").exists(),
            "the nodes are servers",
        )
        assert Server.objects.count() == len(NODES), (tmp_path / "backend.log").read_text()
        assert "n3 slurm-avx2-xeon_x5650-4c-8g active\n" in run(show)
        run(install)
        job_id = int(run(submit).split()[-1])

        def has_ended() -> bool:
            scheduler.work(for_s=1.0)
            return Job.objects.filter(slurm__slurm_id=job_id, state="succeeded").exists()

        until_or_told(plain, has_ended, "the job has run", at=tmp_path)
        job = Job.objects.get(slurm__slurm_id=job_id)
        assert (job.units, job.created_by.username) == (2, "root")
        ran_on = (tmp_path / "out").read_text().split()[-1]
        assert ran_on in ("n3", "n4")
        assert job.decisions.get().outcome == "placed"
    finally:
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGTERM)
    plain.until(lambda: not Path(f"/proc/{pid}").exists(), "the backend has ended")

    def is_held(job_id: int) -> bool:
        return next(job.is_held for job in slurm.jobs() if job.id == job_id)

    held = plain.sbatch("sleep 300")
    assert is_held(held)
    run(release)
    plain.until(lambda: not is_held(held), "it is released")
    (tmp_path / "alive").write_text("1000000000\n")
    assert not is_held(plain.sbatch("sleep 300"))
    run(remove)
    (tmp_path / "alive").write_text("9999999999\n")
    assert not is_held(plain.sbatch("sleep 300"))
