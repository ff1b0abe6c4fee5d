"""``import_cluster FILE``: add the servers of a JSON or YAML cluster file.

It stands here and not in the inventory because it tells what the library of profiled applications
does not know yet.
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from apps.classification.selectors import unprofiled_platforms
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.inventory.cluster_files import ClusterFileError, read_document
from apps.inventory.core.cluster_file import parse_cluster
from apps.inventory.selectors import contradictions, known_servers
from apps.inventory.services import import_cluster

MOST_LINES: Final = 50
_REFUSED: Final = "{} is not a cluster that can be imported:"


class Command(BaseCommand):
    """Check a cluster file, then add what is not there yet."""

    help = "Add the platforms, racks and servers of a cluster file; what is there already stays."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("file", type=Path, help="JSON or YAML (docs/cluster-file.md)")
        parser.add_argument("--dry-run", action="store_true", help="check only, change nothing")

    def handle(self, *_: Any, **options: Any) -> None:
        """Read, check, import."""
        path: Path = options["file"]
        try:
            spec = parse_cluster(read_document(path))
        except ClusterFileError as error:
            raise CommandError(str(error)) from error
        except InvalidInputError as error:
            raise CommandError(listed(_REFUSED.format(path), error.problems)) from error
        if problems := contradictions(spec):
            raise CommandError(listed(_REFUSED.format(path), problems))
        if options["dry_run"]:
            there = len(known_servers(spec))
            added, verb = len(spec.servers) - there, "would be added"
        else:
            added, verb = import_cluster(spec), "added"
            there = len(spec.servers) - added
        self.stdout.write(f"{added:,} servers {verb}, {there:,} were there already")
        if not options["dry_run"] and (missing := unprofiled_platforms()):
            self.stdout.write(advice(missing))


def listed(what: str, problems: list[FieldProblem]) -> str:
    """Write problems below each other, below a line that says of what."""
    lines = [f"{p.pointer or '(whole file)'}: {p.detail}" for p in problems[:MOST_LINES]]
    if len(problems) > MOST_LINES:
        lines.append(f"... and {len(problems) - MOST_LINES:,} more lines like these")
    return "\n  ".join([what, *lines])


def advice(missing: list[str]) -> str:
    """Tell which platforms no job is placed on, and what to do about it."""
    names = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
    return (
        f"The library of profiled applications does not know: {names}.\n"
        "No job is placed there before it does. Run `manage.py profile_library` "
        "(`./dev manage profile_library`)."
    )
