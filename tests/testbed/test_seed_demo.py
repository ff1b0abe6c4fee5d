"""``seed_demo``: creates the demo cluster and the library once."""

from collections import Counter
from io import StringIO

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from apps.classification.core.matrix import MatrixName
from apps.classification.models import MatrixRevision, Revision
from apps.classification.selectors import current_library, current_number
from apps.inventory.core.cluster_file import ClusterSpec, PlatformSpec, ServerSpec
from apps.inventory.core.demo import PLATFORMS, platform_counts
from apps.inventory.models import Cluster, Platform, Rack, ResourceUnit, Server
from apps.inventory.selectors import topology
from apps.inventory.services import import_cluster
from apps.testbed.core.demo_cluster import SERVERS_PER_RACK
from apps.testbed.management.commands import seed_demo

pytestmark = pytest.mark.django_db


def seed(servers: int, **options: str) -> list[str]:
    """Run the command; return its output lines."""
    out = StringIO()
    call_command("seed_demo", servers=servers, stdout=out, **options)
    return out.getvalue().splitlines()


def by_platform() -> Counter[str]:
    return Counter(Server.objects.values_list("platform__name", flat=True))


def expected(servers: int) -> Counter[str]:
    counts = platform_counts(servers)
    return Counter({p.name: n for p, n in zip(PLATFORMS, counts, strict=True) if n})


@pytest.mark.parametrize("servers", [1, 14, 100, 600])
def test_platforms_have_the_proportions_of_the_table(servers: int) -> None:
    seed(servers)
    assert by_platform() == expected(servers)
    assert list(Platform.objects.order_by("rank").values_list("name", flat=True)) == [
        p.name for p in PLATFORMS
    ]


def test_every_core_is_a_unit() -> None:
    seed(100)
    cores = {p.name: p.cores for p in PLATFORMS}
    shape = topology()
    expected_units = [cores[shape.platform_name[kind]] for kind in shape.server_platform]
    assert shape.server_units.tolist() == expected_units
    assert ResourceUnit.objects.count() == sum(expected_units)
    assert not ResourceUnit.objects.exclude(allocation_id=None).exists()


def test_racks_are_full_and_mixed() -> None:
    seed(100)
    sizes = [Server.objects.filter(rack=rack).count() for rack in Rack.objects.order_by("name")]
    assert sizes == [SERVERS_PER_RACK, SERVERS_PER_RACK, 20]
    first = Server.objects.filter(rack__name="rack-001")
    assert first.values("platform").distinct().count() >= 13


def test_progress_is_told_a_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed_demo, "CHUNK", 40)
    output = seed(100)
    assert output[:4] == [
        "40/100 servers",
        "80/100 servers",
        "100/100 servers",
        "profiling the library on 14 platforms",
    ]
    assert output[4] == "3/28 applications profiled"
    assert output[-2:] == [
        "28/28 applications profiled",
        "library of 28 applications, revision 1",
    ]


def test_seeding_again_adds_nothing() -> None:
    seed(50)
    before = list(Server.objects.order_by("id").values_list("id", "name", "platform_id"))
    again = seed(50)
    assert list(Server.objects.order_by("id").values_list("id", "name", "platform_id")) == before
    assert ResourceUnit.objects.count() == sum(Server.objects.values_list("cores", flat=True))
    assert MatrixRevision.objects.count() == len(MatrixName)
    assert again == ["50/50 servers"]


def test_an_import_cut_off_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    seed(40)
    whole = {s.name: s.platform_id for s in Server.objects.all()}
    Server.objects.filter(name__gt="srv-0017").delete()
    Revision.objects.all().delete()
    monkeypatch.setattr(seed_demo, "CHUNK", 10)
    seed(40)
    assert {s.name: s.platform_id for s in Server.objects.all()} == whole
    assert current_number() == 1
    assert MatrixRevision.objects.count() == len(MatrixName)


def test_a_larger_cluster_keeps_its_servers_and_nearly_the_proportions() -> None:
    seed(100)
    before = set(Server.objects.values_list("id", "name", "platform_id"))
    seed(250)
    after = set(Server.objects.values_list("id", "name", "platform_id"))
    assert before < after
    assert len(after) == 250
    expected_counts, counts = expected(250), by_platform()
    # both rows are spread evenly, so a platform's share of the rest is off by a server or two
    assert all(abs(counts[name] - expected_counts[name]) <= 2 for name in expected_counts)


def test_a_smaller_number_leaves_all_servers() -> None:
    seed(60)
    summary, *progress = seed(20)
    assert "already has 60 servers, which stay" in summary
    assert progress == ["20/20 servers"]
    assert Server.objects.count() == 60


@pytest.mark.parametrize("servers", [0, -5, 100_001])
def test_an_impossible_number_is_refused(servers: int) -> None:
    with pytest.raises(CommandError, match="must be between 1 and 100,000, got"):
        seed(servers)
    assert not Server.objects.exists()


def test_the_library_is_dense_in_every_matrix() -> None:
    seed(20)
    library = current_library()
    assert set(library.matrices) == set(MatrixName)
    widths = {name: matrix.values.shape for name, matrix in library.matrices.items()}
    assert widths == {
        MatrixName.BASE_RATE: (28, 2),
        MatrixName.HETEROGENEITY: (28, 14),
        MatrixName.SCALE_UP: (28, 6),
        MatrixName.SCALE_OUT: (28, 8),
        MatrixName.FRAMEWORK: (7, 18),  # analytics only
        MatrixName.TOLERATED: (28, 10),
        MatrixName.CAUSED: (28, 10),
    }
    assert all(np.isfinite(matrix.values).all() for matrix in library.matrices.values())
    assert all((library.matrices[name].values > 0).all() for name in RATES)


RATES = (
    MatrixName.BASE_RATE,
    MatrixName.HETEROGENEITY,
    MatrixName.SCALE_UP,
    MatrixName.SCALE_OUT,
)


def test_the_name_of_the_cluster_can_be_chosen() -> None:
    seed(5, name="south-quay")
    assert Cluster.objects.get().name == "south-quay"


def test_servers_that_were_there_before_stay_and_are_profiled_too() -> None:
    own = PlatformSpec("own", 4, 10**10, 10**9, 10**11, 10.0, 20.0)
    import_cluster(ClusterSpec("own", (own,), (ServerSpec("mine", "own", "r"),)))
    seed(20)
    assert Server.objects.count() == 21
    columns = current_library().matrices[MatrixName.HETEROGENEITY].columns
    assert columns == ("own", *(p.name for p in PLATFORMS))
