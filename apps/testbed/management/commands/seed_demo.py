"""``seed_demo``: the demo cluster and its library of profiled applications."""

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
from apps.testbed.core.worlds import SERVERS_PER_RACK

MOST: Final = 100_000
STEP: Final = 500  # servers added at a time


class Command(BaseCommand):
    """Add the demo cluster; what is there already stays."""

    help = (
        "Make a cluster of fourteen platforms and profile the library every estimate starts from."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--servers", type=int, default=600)
        parser.add_argument("--name", default="demo")

    def handle(self, *_: Any, **options: Any) -> None:
        """Import the servers in steps, then store the library."""
        servers: int = options["servers"]
        if not 1 <= servers <= MOST:
            raise CommandError(f"--servers must lie between 1 and {MOST:,}, got {servers:,}")
        there = Server.objects.count()
        if there > servers:
            self.stdout.write(
                f"the cluster has {there:,} servers already; they stay (--fresh starts over)"
            )
        made = 0
        for spec in _steps(options["name"], servers):
            import_cluster(spec)
            made += len(spec.servers)
            self.stdout.write(f"{made:,}/{servers:,} servers")
            self.stdout.flush()
        if current_number() is None:
            call_command("profile_library", stdout=self.stdout)


def _steps(name: str, servers: int) -> Iterator[ClusterSpec]:
    """Return the cluster a few hundred servers at a time, so that the import shows progress."""
    specs = _servers(servers)
    platforms = tuple(
        PlatformSpec(
            p.name, p.cores, p.memory_bytes, p.network_bps, p.storage_bytes, p.idle_watts,
            p.peak_watts,
        )
        for p in PLATFORMS
    )  # fmt: skip
    for first in range(0, servers, STEP):
        yield ClusterSpec(name, platforms, specs[first : first + STEP])


def _servers(servers: int) -> tuple[ServerSpec, ...]:
    """Return servers named in rack order, their platforms mixed over the racks.

    Each platform's servers are spread evenly over the row, so a cluster made larger later keeps
    the proportions of the first ones nearly.
    """
    places = [
        ((i + 0.5) / n, kind) for kind, n in enumerate(platform_counts(servers)) for i in range(n)
    ]
    order = [PLATFORMS[kind].name for _, kind in sorted(places)]
    numbers = count(1)
    return tuple(
        ServerSpec(
            f"srv-{number:04d}", platform, f"rack-{(number - 1) // SERVERS_PER_RACK + 1:03d}"
        )
        for platform, number in zip(order, numbers, strict=False)
    )
