"""``manage.py retention``: show, pause or resume the deletion of history."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.operations.selectors import retentions
from apps.operations.services.retention import pause_retention


class Command(BaseCommand):
    """Show how the deletion of each kind of history goes; pause or resume one kind."""

    help = "Show, pause or resume the deletion of history."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        change = parser.add_mutually_exclusive_group()
        change.add_argument("--pause", metavar="KIND", help="stop a run after its batch")
        change.add_argument("--resume", metavar="KIND")

    def handle(self, *_: Any, **options: Any) -> None:
        """Change one kind if asked to, then print all."""
        name = options["pause"] or options["resume"]
        if name and not pause_retention(name, is_paused=bool(options["pause"])):
            known = ", ".join(row.name for row in retentions()) or "none has run yet"
            raise CommandError(f"There is no kind of history called {name!r}; known: {known}")
        self.stdout.write(f"{'kind':<20}{'deleted':>14}  {'last run':<20} state")
        for row in retentions():
            at = "never" if row.last_run_at is None else f"{row.last_run_at:%Y-%m-%d %H:%M:%S}"
            state = "complete" if row.is_complete else "rows left"
            state = "paused" if row.is_paused else state
            self.stdout.write(f"{row.name:<20}{row.deleted:>14,}  {at:<20} {state}")
