"""``import_cluster FILE``: add the servers of a JSON or YAML cluster file.

It belongs to this app, not to inventory, because it reports platforms that the library of profiled
applications does not cover.
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from apps.classification.selectors import unprofiled_platforms
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.inventory.core.cluster_file import parse_cluster
from apps.inventory.files import ClusterFileError, read_document
from apps.inventory.selectors import contradictions, known_servers
from apps.inventory.services import import_cluster

MAX_LINES: Final = 50
_REFUSED: Final = "{} cannot be imported:"


class Command(BaseCommand):
    """Check a cluster file, then add its new servers."""

    help = "Add the platforms, racks and servers of a cluster file. Existing ones are not changed."

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
            existing = len(known_servers(spec))
            added, verb = len(spec.servers) - existing, "would be added"
        else:
            added, verb = import_cluster(spec), "added"
            existing = len(spec.servers) - added
        self.stdout.write(f"{added:,} servers {verb}, {existing:,} already exist")
        if not options["dry_run"] and (missing := unprofiled_platforms()):
            self.stdout.write(advice(missing))


def listed(heading: str, problems: list[FieldProblem]) -> str:
    """Format problems as a list below a heading."""
    lines = [f"{p.pointer or '(whole file)'}: {p.detail}" for p in problems[:MAX_LINES]]
    if len(problems) > MAX_LINES:
        lines.append(f"... and {len(problems) - MAX_LINES:,} more problems")
    return "\n  ".join([heading, *lines])


def advice(missing: list[str]) -> str:
    """Name the platforms that receive no jobs, and the command that fixes it."""
    names = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
    return (
        f"The library of profiled applications does not cover: {names}.\n"
        "These platforms receive no jobs until it does. Run `manage.py profile_library` "
        "(`./dev manage profile_library`)."
    )
