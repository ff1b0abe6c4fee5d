"""A real slurmrestd before the Slurm of six nodes: it lists, the programs change."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from apps.execution.backends.slurm.commands import Slurm, SlurmAwayError
from apps.execution.backends.slurm.rest import Slurmrestd
from apps.workloads.services import cancel_jobs
from tests.execution.slurm import rest_cluster
from tests.execution.slurm.conftest import HOOK, World, a_world, require_slurm
from tests.execution.slurm.rest_cluster import RestCluster


@pytest.fixture(scope="module")
def served() -> Iterator[RestCluster]:
    """Six nodes with the hook, and a slurmrestd."""
    require_slurm()
    if missing := rest_cluster.missing():
        reason = f"SLURM TESTS SKIPPED: needs {missing} (apt-get install {rest_cluster.PACKAGES})"
        assert not os.environ.get("BERTH_SLURM_REQUIRED"), reason
        pytest.skip(reason)
    work = Path(tempfile.mkdtemp(prefix="berth-slurmrestd."))
    work.chmod(0o755)
    found = RestCluster(work, HOOK.read_text())
    try:
        found.start()
        found.start_rest()
        yield found
    finally:
        found.stop()
        shutil.rmtree(work, ignore_errors=True)


@pytest.fixture(params=["port", "socket"])
def rest_world(
    transactional_db: None, served: RestCluster, settings: Settings, request: pytest.FixtureRequest
) -> Iterator[World]:
    """A Berth that asks slurmrestd."""
    yield from a_world(served, settings, served.rest(served.urls[request.param]))


@pytest.mark.slurm
def test_a_job_is_placed_runs_and_is_cancelled_through_slurmrestd(rest_world: World) -> None:
    slurm_id = rest_world.submit("sleep 300", "-n", "3", "--constraint=avx2")
    job = rest_world.until_state(slurm_id, "running")
    assert rest_world.jobs()[slurm_id].nodes == (rest_world.node_of(job),)
    cancel_jobs([job.pk])
    rest_world.until_state(slurm_id, "cancelled")
    bad = rest_world.until_state(rest_world.submit("exit 3"), "failed")
    assert (bad.exit_code, bad.reason_message) == (3, "exit code 3")


@pytest.mark.slurm
def test_slurmrestd_and_the_programs_list_the_same(served: RestCluster) -> None:
    programs = Slurm(served.environment["SLURM_CONF"], served.environment["PATH"])
    rest = served.rest(served.urls["port"])
    served.sbatch("exit 0", "-H", "--comment=held")
    for _ in range(100):  # jobs of the last test may still end
        before, found, after = programs.jobs(), rest.jobs(), programs.jobs()
        if before == after:
            break
    assert found == after != []
    listed, asked = (
        [replace(node, cpu_load=None, free_bytes=None) for node in slurm.nodes()]
        for slurm in (programs, rest)
    )
    assert asked == listed
    assert len(asked) == 6


@pytest.mark.slurm
def test_a_token_that_slurm_did_not_sign_is_refused_with_the_call(
    served: RestCluster, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("a.b.c")
    rest = served.rest(served.urls["port"], token_file=tmp_path / "token")
    said = r"slurmrestd, GET /slurm/v0\.0\.38/jobs: status 500: .*Failed while looking for jobs"
    with pytest.raises(SlurmAwayError, match=said):
        rest.jobs()


def test_a_slurmrestd_that_is_away_is_told_with_the_call(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("SLURM_JWT=a.b.c\n")
    rest = Slurmrestd(f"unix:{tmp_path / 'none'}", "root", tmp_path / "token")
    with pytest.raises(SlurmAwayError, match=r"GET /slurm/v0\.0\.38/jobs: FileNotFoundError"):
        rest.get("/slurm/v0.0.38/jobs")


def test_a_token_file_with_more_than_a_token_is_told_with_the_call(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("SLURM_JWT=a.b.c\nSLURM_JWT=d.e.f\n")
    rest = Slurmrestd("http://127.0.0.1:6820", "root", tmp_path / "token")
    with pytest.raises(SlurmAwayError, match="must hold one token"):
        rest.get("/slurm/v0.0.38/jobs")


@pytest.mark.parametrize("url", ["ftp://host", "http://", "unix:", "host:6820"])
def test_other_urls_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unix:/PATH"):
        Slurmrestd(url, "root", tmp_path / "token")


def test_run_slurm_needs_a_token_with_a_url() -> None:
    with pytest.raises(CommandError, match="needs --rest-token-file"):
        call_command("run_slurm", rest_url="http://127.0.0.1:6820")
