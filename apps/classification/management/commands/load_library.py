"""``load_library FILE``: replace the library that all estimates are based on."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.classification.core.library_file import parse_library
from apps.classification.management.commands.import_cluster import advice, listed
from apps.classification.selectors import unprofiled_platforms
from apps.classification.services import fold_pending, request_all_folds, store_library
from apps.common.core.errors import InvalidInputError
from apps.inventory.files import ClusterFileError, read_document
from apps.inventory.selectors import cluster_now


class Command(BaseCommand):
    """Check a library file, then create a revision from it."""

    help = "Load a library of profiled applications, as written by save_library."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("file", type=Path, help="JSON or YAML")

    def handle(self, *_: Any, **options: Any) -> None:
        """Read, check and store the library, then update all profiles."""
        path: Path = options["file"]
        try:
            library = parse_library(read_document(path), at_s=cluster_now())
        except ClusterFileError as error:
            raise CommandError(str(error)) from error
        except InvalidInputError as error:
            heading = f"{path} cannot be loaded:"
            raise CommandError(listed(heading, error.problems)) from error
        number = store_library(library.rows, platforms=library.platforms)
        self.stdout.write(f"library of {len(library.rows):,} applications, revision {number}")
        if requested := request_all_folds():
            while fold_pending():
                pass
            self.stdout.write(f"{requested:,} profiles updated")
        if missing := unprofiled_platforms():
            self.stdout.write(advice(missing))
