import pytest

from apps.execution.backends.emulated.port import NoServersError
from apps.execution.backends.emulated.site import read_site
from apps.inventory.core.cluster_file import ClusterSpec, PlatformSpec, ServerSpec
from apps.inventory.services import import_cluster

pytestmark = pytest.mark.django_db


def small_cluster() -> ClusterSpec:
    platforms = (
        PlatformSpec("cr1.8xlarge", 32, 244 * 10**9, 10**10, 240 * 10**9, 118.0, 345.0),
        PlatformSpec("m1.large", 2, 7_500_000_000, 5 * 10**8, 840 * 10**9, 23.0, 43.0),
    )
    servers = tuple(
        ServerSpec(name, platform, "rack-1", {})
        for name, platform in [("a", "m1.large"), ("b", "cr1.8xlarge"), ("c", "m1.large")]
    )
    return ClusterSpec("north-quay", platforms, servers)


def test_refuses_an_empty_inventory() -> None:
    with pytest.raises(NoServersError, match="import a cluster"):
        read_site()


def test_the_site_matches_the_inventory() -> None:
    import_cluster(small_cluster())
    site = read_site()
    assert len(site.server_id) == 3
    assert site.machines.units.tolist() == [2, 32, 2]
    assert site.machines.platform.tolist() == [1, 0, 1]
    assert site.machines.memory_bytes[1] == 244e9
    assert site.machines.peak_watts.tolist() == [43.0, 345.0, 43.0]
    assert site.machines.platforms.names == ("cr1.8xlarge", "m1.large")


def test_adding_servers_changes_the_version() -> None:
    import_cluster(small_cluster())
    before = read_site().version
    more = ServerSpec("d", "m1.large", "rack-2", {})
    spec = small_cluster()
    import_cluster(ClusterSpec(spec.name, spec.platforms, (*spec.servers, more)))
    assert read_site().version > before
    assert len(read_site().server_id) == 4
