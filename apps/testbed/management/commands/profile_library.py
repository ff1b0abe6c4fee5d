"""``profile_library``: the applications every estimate starts from, on the cluster's platforms."""

from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.matrix import MatrixName
from apps.classification.services import classify_again, fold_pending, store_library
from apps.emulation.core.library import PER_KIND, library
from apps.emulation.core.platforms import catalogue
from apps.inventory import selectors

MOST_PER_KIND: Final = 200


class Command(BaseCommand):
    """Measure the library on every platform there is, and make it the current revision."""

    help = "Profile the library every estimate starts from on the platforms of the cluster."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--per-kind",
            type=int,
            default=PER_KIND,
            help=f"applications of each of the four kinds ({PER_KIND})",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Profile on the emulated hardware, store, bring all profiles up to date."""
        per_kind: int = options["per_kind"]
        if not 1 <= per_kind <= MOST_PER_KIND:
            raise CommandError(
                f"--per-kind must lie between 1 and {MOST_PER_KIND}, got {per_kind}"
            )
        names = selectors.topology().platform_name
        if not names:
            raise CommandError(
                "the cluster has no platforms to profile on: import one first "
                "(`manage.py import_cluster FILE` or `manage.py seed_demo`)"
            )
        self._say(f"profiling the library on {len(names)} platforms")
        rows = _measured(names, per_kind)
        number = store_library(rows, platforms=names)
        self._say(f"library of {len(rows)} applications, revision {number}")
        if again := classify_again():
            while fold_pending():
                pass
            self._say(f"{again:,} profiled applications classified again")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _measured(names: tuple[str, ...], per_kind: int) -> dict[str, list[KnownCell]]:
    seed, now_s = selectors.cluster().seed, selectors.cluster_now()
    return {
        entry.application: [
            KnownCell(
                MatrixName(c.matrix), c.column, c.value, c.standard_error, Source.MEASURED,
                c.samples, now_s,
            )
            for c in entry.cells
        ]
        for entry in library(seed, catalogue(names, seed=seed), per_kind=per_kind)
    }
