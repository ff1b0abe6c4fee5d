"""``fit_report``: compare the generated day with a real SWIM trace."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
from django.core.management.base import BaseCommand, CommandError

from apps.testbed.core.fitting import burst_shape, compare_traces, fit_mixture, hourly_counts
from apps.testbed.core.generator import FB2009_SEED, generate_day
from apps.testbed.core.jobs import CLASSES
from apps.testbed.core.traces import SwimTrace, TraceError
from apps.testbed.files import read_submissions


class Command(BaseCommand):
    """Compare the generated day with a trace; optionally fit new parameters."""

    help = "Compare a generated FB-2009 day with a real SWIM trace."
    requires_system_checks = ()  # needs neither database nor URLs

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--trace", required=True, type=Path, help="SWIM file, may be gzipped")
        parser.add_argument("--seed", type=int, default=FB2009_SEED)
        parser.add_argument("--refit", action="store_true", help="fit and print new parameters")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the comparison."""
        try:
            trace = read_submissions(options["trace"])
        except TraceError as error:
            raise CommandError(str(error)) from error
        if not isinstance(trace, SwimTrace):
            raise CommandError(f"{options['trace']}: not a SWIM trace")
        if options["refit"]:
            self._print_parameters(trace, options["seed"])
        self._print_comparison(trace, options["seed"])

    def _print_comparison(self, trace: SwimTrace, seed: int) -> None:
        generated = generate_day(len(trace), np.random.default_rng(seed))
        rows, distances = compare_traces(trace, generated)
        self.stdout.write(f"{'':28}{trace.name:>22}{'generated':>22}")
        for row in rows:
            self.stdout.write(f"{row.figure:28}{row.first:>22,.3f}{row.second:>22,.3f}")
        self.stdout.write("\nKolmogorov-Smirnov distance")
        for name, distance in distances.items():
            self.stdout.write(f"{name:28}{distance:>22.3f}")

    def _print_parameters(self, trace: SwimTrace, seed: int) -> None:
        self.stdout.write(f"hourly counts {hourly_counts(trace.submit_s).tolist()}")
        self.stdout.write(f"burst shape {burst_shape(trace.submit_s):.3f}")
        for component in fit_mixture(trace, CLASSES, np.random.default_rng(seed)):
            self.stdout.write(repr(component))
        self.stdout.write("")
