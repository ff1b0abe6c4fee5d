"""``profile_library``: profile the reference applications on the platforms of the cluster."""

import math
from argparse import ArgumentParser
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.matrix import MatrixName
from apps.classification.services import fold_pending, request_all_folds, store_library
from apps.emulation.core.draws import KINDS
from apps.emulation.core.library import PER_KIND, entries
from apps.emulation.core.worlds import WORLDS, world_named
from apps.inventory import selectors
from apps.inventory.core.backends import Capability
from apps.profiling.core.measurements import MeasuredCell

MAX_PER_KIND: Final = 200
PROGRESS_LINES: Final = 10


class Command(BaseCommand):
    """Profile the library on every platform, and store it as the current revision."""

    help = "Profile the library of reference applications on the platforms of the cluster."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--per-kind",
            type=int,
            default=PER_KIND,
            help=f"applications of each of the four kinds ({PER_KIND})",
        )
        parser.add_argument(
            "--world",
            choices=list(WORLDS),
            default=settings.EMULATED_WORLD,
            help=f"what the emulator draws from ({settings.EMULATED_WORLD})",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Profile on the emulated hardware, store the library, and update all profiles."""
        per_kind: int = options["per_kind"]
        if not 1 <= per_kind <= MAX_PER_KIND:
            raise CommandError(f"--per-kind must be between 1 and {MAX_PER_KIND}, got {per_kind}")
        names = selectors.topology().platforms_with(Capability.PROBE)
        if not names:
            raise CommandError(
                "the cluster has no platforms to profile on: import one first "
                "(`manage.py import_cluster FILE` or `manage.py seed_demo`)"
            )
        self._say(f"profiling the library on {len(names)} platforms")
        rows = self._measured(names, per_kind, options["world"])
        number = store_library(rows, platforms=names)
        self._say(f"library of {len(rows)} applications, revision {number}")
        if count := request_all_folds():
            while fold_pending():
                pass
            self._say(f"{count:,} profiled applications classified again")

    def _measured(
        self, names: tuple[str, ...], per_kind: int, world: str
    ) -> dict[str, list[KnownCell]]:
        seed, now_s, drawn = selectors.cluster().seed, selectors.cluster_now(), world_named(world)
        total = per_kind * len(KINDS)
        rows: dict[str, list[KnownCell]] = {}
        platforms = drawn.catalogue(names, seed=seed)
        for entry in entries(seed, platforms, per_kind=per_kind, world=drawn):
            rows[entry.application] = [_known(cell, now_s) for cell in entry.cells]
            if len(rows) % math.ceil(total / PROGRESS_LINES) == 0 or len(rows) == total:
                self._say(f"{len(rows)}/{total} applications profiled")
        return rows

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _known(cell: MeasuredCell, at_s: float) -> KnownCell:
    return KnownCell(
        MatrixName(cell.matrix),
        cell.column,
        cell.value,
        cell.standard_error,
        Source.MEASURED,
        cell.samples,
        at_s,
    )
