"""``world_report``: how well the emulated worlds resemble public measurements."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.dashboard.figures import world_fit
from apps.testbed.core.world_fit.report import as_json, as_text, report
from apps.testbed.infrastructure.measurements import (
    VARIABLE,
    MeasurementsError,
    checksums,
    measurements_folder,
    read_groups,
)


class Command(BaseCommand):
    """Compare every fitted figure with the interval of the measurements."""

    help = (
        "Compare the measured world with the public measurements that it was fitted to, and with "
        "the part of them that was held out. Exits with 1 if a figure is outside its interval."
    )
    requires_system_checks = ()  # needs neither database nor URLs

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--data", type=Path, help=f"folder with one folder for each set (or {VARIABLE})"
        )
        parser.add_argument("--html", type=Path, help="write a page with figures to this file")
        parser.add_argument("--json", action="store_true", help="print JSON, not tables")
        parser.add_argument("--seed", type=int, default=1)

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the report."""
        try:
            root = measurements_folder(options["data"])
        except MeasurementsError as error:
            raise CommandError(str(error)) from error
        found = report(read_groups(root), options["seed"])
        if options["html"]:
            options["html"].write_text(world_fit.page(found))
        if options["json"]:
            self.stdout.write(json.dumps(as_json(found, checksums(root)), indent=1))
        else:
            self.stdout.write(as_text(found), ending="")
        if found.outside():
            sys.exit(1)
