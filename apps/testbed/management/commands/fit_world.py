"""``fit_world``: fit the `measured` world to a folder of public measurements."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.testbed.core.world_fit.fit import fit
from apps.testbed.core.world_fit.source import module_text
from apps.testbed.infrastructure.measurements import (
    MeasurementsError,
    checksums,
    measurements_folder,
    read_groups,
)

MODULE: Final = Path("apps/emulation/core/worlds/fitted.py")


class Command(BaseCommand):
    """Fit the parameters and write them into the package."""

    help = "Fit the measured world to public measurements and write its parameters."
    requires_system_checks = ()  # needs neither database nor URLs

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--data", type=Path, help="folder with one folder for each set")
        parser.add_argument("--output", type=Path, help=f"file to write ({MODULE})")

    def handle(self, *args: Any, **options: Any) -> None:
        """Fit and write."""
        try:
            root = measurements_folder(options["data"])
        except MeasurementsError as error:
            raise CommandError(str(error)) from error
        held_in = {name: parts[0] for name, parts in read_groups(root).items()}
        output = options["output"] or settings.BASE_DIR / MODULE
        output.write_text(module_text(fit(held_in), checksums(root)))
        self.stdout.write(f"wrote {output}")
