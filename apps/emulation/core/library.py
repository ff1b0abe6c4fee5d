"""The offline library: applications profiled on every column, to train new classifiers.

Source: Paragon §2.2 and Quasar §3.2: 20-30 applications are profiled exhaustively once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from apps.emulation.core.draws import KINDS
from apps.emulation.core.platforms import Catalogue
from apps.emulation.core.probe import exhaustive
from apps.emulation.core.seeds import Stream, generator
from apps.emulation.core.truth import Truth
from apps.emulation.core.worlds import PAPER, World
from apps.profiling.core.measurements import MeasuredCell

PER_KIND: Final = 7  # 28 in all


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """One application with a noisy measurement in every cell of every matrix."""

    application: str
    kind: str
    cells: tuple[MeasuredCell, ...]


def library(
    seed: int, platforms: Catalogue, *, per_kind: int = PER_KIND, world: World = PAPER
) -> list[LibraryEntry]:
    """Measure the library of a cluster; deterministic for a seed, platforms and world."""
    return list(entries(seed, platforms, per_kind=per_kind, world=world))


def entries(
    seed: int, platforms: Catalogue, *, per_kind: int, world: World = PAPER
) -> Iterator[LibraryEntry]:
    """Measure the library one application at a time, so that callers can show progress."""
    for kind in KINDS:
        for number in range(1, per_kind + 1):
            name = f"library-{kind.replace('_', '-')}-{number:02d}"
            truth = world.application_truth(seed, name, kind, platforms, Stream.LIBRARY)
            yield _entry(seed, truth)


def _entry(seed: int, truth: Truth) -> LibraryEntry:
    rng = generator(seed, "library", truth.name)
    return LibraryEntry(truth.name, truth.kind, exhaustive(truth, rng))
