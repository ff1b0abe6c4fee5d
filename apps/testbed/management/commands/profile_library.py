"""``profile_library``: the applications every estimate starts from, on the cluster's platforms."""

import math
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.matrix import MatrixName
from apps.classification.services import classify_again, fold_pending, store_library
from apps.emulation.core.draws import KINDS
from apps.emulation.core.library import PER_KIND, entries
from apps.emulation.core.platforms import catalogue
from apps.emulation.core.probe import Measured
from apps.inventory import selectors

MOST_PER_KIND: Final = 200
STEPS: Final = 10  # lines of progress


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
        rows = self._measured(names, per_kind)
        number = store_library(rows, platforms=names)
        self._say(f"library of {len(rows)} applications, revision {number}")
        if again := classify_again():
            while fold_pending():
                pass
            self._say(f"{again:,} profiled applications classified again")

    def _measured(self, names: tuple[str, ...], per_kind: int) -> dict[str, list[KnownCell]]:
        seed, now_s = selectors.cluster().seed, selectors.cluster_now()
        total = per_kind * len(KINDS)
        rows: dict[str, list[KnownCell]] = {}
        for entry in entries(seed, catalogue(names, seed=seed), per_kind=per_kind):
            rows[entry.application] = [_known(cell, now_s) for cell in entry.cells]
            if len(rows) % math.ceil(total / STEPS) == 0 or len(rows) == total:
                self._say(f"{len(rows)}/{total} applications profiled")
        return rows

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _known(cell: Measured, at_s: float) -> KnownCell:
    return KnownCell(
        MatrixName(cell.matrix),
        cell.column,
        cell.value,
        cell.standard_error,
        Source.MEASURED,
        cell.samples,
        at_s,
    )
