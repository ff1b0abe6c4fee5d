"""A Slurm with accounting: what the controller has forgotten, sacct still knows."""

from collections.abc import Iterator

import pytest

from apps.execution.backends.slurm.commands import Slurm
from tests.execution.slurm.cluster import SlurmCluster
from tests.execution.slurm.conftest import a_cluster, require_slurm

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def accounted() -> Iterator[SlurmCluster]:
    """Six nodes with slurmdbd, without a hook."""
    require_slurm(accounting=True)
    yield from a_cluster("", accounting=True)


def test_the_accounting_tells_how_jobs_ended(accounted: SlurmCluster) -> None:
    slurm = Slurm(accounted.environment["SLURM_CONF"], accounted.environment["PATH"])
    good, bad = accounted.sbatch("exit 0", "-w", "n3"), accounted.sbatch("exit 7", "-w", "n4")
    runs = accounted.sbatch("sleep 300")
    accounted.until(
        lambda: len(slurm.ended([good, bad, runs]) or {}) == 2, "sacct knows both ends"
    )
    ended = slurm.ended([good, bad, runs, 999_999]) or {}
    assert {job: (row.state, row.exit_code, row.nodes) for job, row in ended.items()} == {
        good: ("COMPLETED", 0, ("n3",)),
        bad: ("FAILED", 7, ("n4",)),
    }
    listed = {job.id: job for job in slurm.jobs()}
    assert (ended[good].started_s, ended[good].ended_s) == (
        listed[good].started_s,
        listed[good].ended_s,
    )
