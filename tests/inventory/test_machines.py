"""Registration of machines and nodes as servers."""

from dataclasses import replace

import pytest

from apps.common.core.errors import ConflictError
from apps.inventory.core.backends import SLURM
from apps.inventory.models import Change, ChangeKind
from apps.inventory.services import MachineShape, register_machine
from tests import factories

pytestmark = pytest.mark.django_db
SHAPE = MachineShape(
    cores=4, sockets=1, memory_bytes=8 * 2**30, network_bps=10**10, storage_bytes=2**30,
    kind="slurm-avx-4c-8g",
)  # fmt: skip


@pytest.fixture(autouse=True)
def cluster(db: None) -> None:
    """A cluster without servers."""
    factories.cluster()


def topology_changes() -> int:
    """Return the number of changes that let agents read the servers again."""
    return Change.objects.filter(kind=ChangeKind.TOPOLOGY).count()


def test_a_node_is_a_server_of_its_backend_with_labels() -> None:
    server = register_machine("n1", SHAPE, backend=SLURM, labels={"slurm-node": "n1"})
    assert (server.backend, server.platform.name) == ("slurm", "slurm-avx-4c-8g")
    assert server.labels == {"slurm-node": "n1"}
    assert server.units.count() == 4


def test_other_labels_features_and_memory_change_the_server() -> None:
    server = register_machine("n1", SHAPE, backend=SLURM, labels={"a": "yes"})
    before = topology_changes()
    same = register_machine("n1", SHAPE, backend=SLURM, labels={"a": "yes"})
    assert (same.generation, topology_changes()) == (server.generation, before)
    other = replace(SHAPE, kind="slurm-avx2-4c-4g", memory_bytes=4 * 2**30)
    changed = register_machine("n1", other, backend=SLURM, labels={"b": "yes"})
    assert changed.pk == server.pk
    assert (changed.platform.name, changed.labels) == ("slurm-avx2-4c-4g", {"b": "yes"})
    assert changed.memory_bytes == 4 * 2**30
    assert (changed.generation, topology_changes()) == (server.generation + 1, before + 1)


def test_memory_is_never_below_what_jobs_hold() -> None:
    server = register_machine("n1", SHAPE, backend=SLURM, labels={})
    server.used_memory_bytes = 6 * 2**30
    server.save()
    smaller = replace(SHAPE, memory_bytes=4 * 2**30)
    assert register_machine("n1", smaller, backend=SLURM, labels={}).memory_bytes == 6 * 2**30


def test_the_server_of_another_backend_keeps_its_name_and_platform() -> None:
    register_machine("box-1", replace(SHAPE, kind=""))
    with pytest.raises(ConflictError, match="box-1 is agent"):
        register_machine("box-1", SHAPE, backend=SLURM, labels={})
    with pytest.raises(ConflictError, match="belongs to servers of another backend"):
        register_machine("n1", replace(SHAPE, kind=""), backend=SLURM, labels={})


def test_a_node_with_other_cores_is_refused() -> None:
    register_machine("n1", SHAPE, backend=SLURM, labels={})
    with pytest.raises(ConflictError, match="registered with 4 cores, not 8"):
        register_machine("n1", replace(SHAPE, cores=8), backend=SLURM, labels={})
