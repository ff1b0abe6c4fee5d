"""``manage.py start_clock --speed 60``: let cluster time run."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand

from apps.inventory import services


class Command(BaseCommand):
    """Let cluster time run."""

    help = "Start the cluster clock where it stopped, or change its speed."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--speed", type=float, default=60.0, help="cluster seconds per second")
        parser.add_argument(
            "--was-still",
            action="store_true",
            help="nothing has run since the clock was last recorded",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Start the clock and print its value."""
        row = services.start_clock(speed=options["speed"], was_still=options["was_still"])
        self.stdout.write(f"cluster time {row.cluster_anchor_s:.0f} s, running at {row.speed:g}x")
