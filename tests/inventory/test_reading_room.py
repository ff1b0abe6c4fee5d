"""Room for new versions on the pages of readings."""

import pytest

from apps.common.infrastructure.database import fetch_rows
from apps.inventory.core.cluster_file import ClusterSpec, PlatformSpec, ServerSpec
from apps.inventory.models import Server
from apps.inventory.services import ServerReport, import_cluster, record_readings
from tests import factories

pytestmark = pytest.mark.django_db

SMALL = PlatformSpec("small", 1, 8 * 10**9, 10**9, 10**11, 20.0, 50.0)
SPEC = ClusterSpec("quay", (SMALL,), tuple(ServerSpec(f"s{i}", "small", "r1") for i in range(300)))


def report(cpu_share: float) -> None:
    servers = Server.objects.values_list("id", flat=True)
    readings = [ServerReport(server, cpu_share, 0.1, 0.1, 0.1, 30.0) for server in servers]
    record_readings(readings, backend="emulated", at=factories.MOMENT, cluster_s=10.0)


def pages() -> dict[int, int]:
    rows = fetch_rows("SELECT server_id, (ctid::text::point)[0]::int FROM inventory_serverreading")
    return dict(rows)


def test_a_report_leaves_readings_on_their_pages() -> None:
    import_cluster(SPEC)
    report(0.2)
    before = pages()
    assert len(set(before.values())) > 5  # the reports are not all on one page
    report(0.3)
    assert pages() == before
