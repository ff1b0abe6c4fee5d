"""``convert_trace``: read a trace in any known format and write it in another."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.testbed.core.traces import TraceError
from apps.testbed.files import read_trace, write_trace


class Command(BaseCommand):
    """Convert a trace; says what was left out."""

    help = "Convert a trace to the Standard Workload Format, Parquet or JSON Lines."
    requires_system_checks = ()  # needs neither database nor URLs

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("source", type=Path, help="any known format, may be gzipped")
        parser.add_argument("target", type=Path, help="ends in .swf, .parquet, .jsonl, or .gz")
        parser.add_argument(
            "--strict", action="store_true", help="a malformed line is an error, not left out"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Convert."""
        try:
            trace = read_trace(options["source"], strict=options["strict"])
            write_trace(trace, options["target"])
        except TraceError as error:
            raise CommandError(str(error)) from error
        for note in trace.notes:
            self.stdout.write(f"{options['source']}: {note}")
        for problem in trace.problems:
            self.stdout.write(f"left out: {problem}")
        self.stdout.write(
            f"{options['target']}: {len(trace):,} jobs from {trace.format.value},"
            f" {trace.skipped:,} malformed lines left out"
        )
