"""``manage.py stop_clock``: let cluster time stand still."""

from typing import Any

from django.core.management.base import BaseCommand

from apps.inventory import services


class Command(BaseCommand):
    """Let cluster time stand still."""

    help = "Let cluster time stand still."

    def handle(self, *args: Any, **options: Any) -> None:
        """Stop the clock and print its value."""
        row = services.stop_clock()
        self.stdout.write(f"cluster time stands at {row.cluster_anchor_s:.0f} s")
