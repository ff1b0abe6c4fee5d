"""``load_library FILE``: make a saved library the one every estimate starts from."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.classification.core.library_file import parse_library
from apps.classification.management.commands.import_cluster import advice, listed
from apps.classification.selectors import unprofiled_platforms
from apps.classification.services import classify_again, fold_pending, store_library
from apps.common.core.errors import InvalidInputError
from apps.inventory.cluster_files import ClusterFileError, read_document
from apps.inventory.selectors import cluster_now


class Command(BaseCommand):
    """Check a library file, then bring a revision with it into force."""

    help = "Load a library of profiled applications (as save_library writes it)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("file", type=Path, help="JSON or YAML")

    def handle(self, *_: Any, **options: Any) -> None:
        """Read, check, store, bring all profiles up to date."""
        path: Path = options["file"]
        try:
            library = parse_library(read_document(path), at_s=cluster_now())
        except ClusterFileError as error:
            raise CommandError(str(error)) from error
        except InvalidInputError as error:
            what = f"{path} is not a library that can be loaded:"
            raise CommandError(listed(what, error.problems)) from error
        number = store_library(library.rows, platforms=library.platforms)
        self.stdout.write(f"library of {len(library.rows):,} applications, revision {number}")
        if again := classify_again():
            while fold_pending():
                pass
            self.stdout.write(f"{again:,} profiled applications classified again")
        if missing := unprofiled_platforms():
            self.stdout.write(advice(missing))
