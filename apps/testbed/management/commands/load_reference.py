"""``load_reference``: insert the rows of an installation that has run for months."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.common.core.errors import ConflictError
from apps.testbed.services.reference import MAX_JOBS, load_reference


class Command(BaseCommand):
    """Insert reference jobs with decisions, launches, allocations, samples and events."""

    help = "Insert jobs with their whole history, for benchmarks and tests of large databases."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--jobs", type=int, default=100_000)
        parser.add_argument("--days", type=int, default=90, help="age of the oldest job")

    def handle(self, *_: Any, **options: Any) -> None:
        """Load the data and print the number of rows of each kind."""
        jobs, days = options["jobs"], options["days"]
        if not 200 <= jobs <= MAX_JOBS:
            raise CommandError(f"--jobs must be between 200 and {MAX_JOBS:,}, got {jobs:,}")
        if not 1 <= days <= 3_650:
            raise CommandError(f"--days must be between 1 and 3,650, got {days:,}")
        begin = time.monotonic()

        def report(what: str, rows: int) -> None:
            self.stdout.write(f"{time.monotonic() - begin:7.1f} s  {rows:>11,} {what}")
            self.stdout.flush()

        try:
            load_reference(jobs=jobs, days=days, report=report)
        except ConflictError as error:
            raise CommandError(str(error)) from error
