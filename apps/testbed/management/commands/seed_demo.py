"""``seed_demo``: create the demo cluster and its library of profiled applications."""

from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from apps.classification.selectors import current_number
from apps.inventory.core.cluster_file import ClusterSpec, PlatformSpec, ServerSpec
from apps.inventory.core.demo import PLATFORMS, platform_counts
from apps.inventory.models import Server
from apps.inventory.services import import_cluster
from apps.testbed.core.demo_cluster import SERVERS_PER_RACK

MAX_SERVERS: Final = 100_000
CHUNK: Final = 500  # servers per import


class Command(BaseCommand):
    """Add the demo cluster; existing servers are not changed."""

    help = (
        "Create a cluster of fourteen platforms and profile the library of reference applications."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--servers", type=int, default=600)
        parser.add_argument("--name", default="demo")

    def handle(self, *_: Any, **options: Any) -> None:
        """Import the servers in chunks, then store the library."""
        servers: int = options["servers"]
        if not 1 <= servers <= MAX_SERVERS:
            raise CommandError(f"--servers must be between 1 and {MAX_SERVERS:,}, got {servers:,}")
        existing = Server.objects.count()
        if existing > servers:
            self.stdout.write(
                f"the cluster already has {existing:,} servers, which stay (--fresh starts over)"
            )
        imported = 0
        for spec in _chunks(options["name"], servers):
            import_cluster(spec)
            imported += len(spec.servers)
            self.stdout.write(f"{imported:,}/{servers:,} servers")
            self.stdout.flush()
        if current_number() is None:
            call_command("profile_library", stdout=self.stdout)


def _chunks(name: str, servers: int) -> Iterator[ClusterSpec]:
    """Yield the cluster in chunks, so that the import shows progress."""
    specs = _servers(servers)
    platforms = tuple(
        PlatformSpec(
            p.name, p.cores, p.memory_bytes, p.network_bps, p.storage_bytes, p.idle_watts,
            p.peak_watts,
        )
        for p in PLATFORMS
    )  # fmt: skip
    for first in range(0, servers, CHUNK):
        yield ClusterSpec(name, platforms, specs[first : first + CHUNK])


def _servers(servers: int) -> tuple[ServerSpec, ...]:
    """Return servers named in rack order, with the platforms mixed over the racks.

    The servers of each platform are spread evenly, so a cluster that is extended later nearly
    keeps its proportions.
    """
    positions = [
        ((i + 0.5) / n, kind) for kind, n in enumerate(platform_counts(servers)) for i in range(n)
    ]
    order = [PLATFORMS[kind].name for _, kind in sorted(positions)]
    numbers = count(1)
    return tuple(
        ServerSpec(
            f"srv-{number:04d}", platform, f"rack-{(number - 1) // SERVERS_PER_RACK + 1:03d}"
        )
        for platform, number in zip(order, numbers, strict=False)
    )
