"""``save_library FILE``: write the offline library of the current revision as JSON."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.classification.core.library_file import LibraryFile, document
from apps.classification.selectors import NoLibraryError, library_rows


class Command(BaseCommand):
    """Export the library, for another cluster or for later."""

    help = "Save the library of profiled applications as a JSON file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("file", type=Path)

    def handle(self, *_: Any, **options: Any) -> None:
        """Read the library and write the file."""
        path: Path = options["file"]
        try:
            library = library_rows()
        except NoLibraryError as error:
            raise CommandError(str(error)) from error
        text = json.dumps(document(LibraryFile(library.platforms, library.rows)), indent=1)
        try:
            path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror}") from error
        self.stdout.write(
            f"{len(library.rows):,} applications on {len(library.platforms):,} platforms, "
            f"revision {library.number}, saved in {path}"
        )
