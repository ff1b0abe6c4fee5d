"""``manage.py stop_clock``: let cluster time stand still."""

from typing import Any

from django.core.management.base import BaseCommand

from apps.inventory import services


class Command(BaseCommand):
    """Stop the cluster clock."""

    help = "Stop the cluster clock."

    def handle(self, *args: Any, **options: Any) -> None:
        """Stop the clock and print its value."""
        row = services.stop_clock()
        self.stdout.write(f"cluster time is stopped at {row.cluster_anchor_s:.0f} s")
