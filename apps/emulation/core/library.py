"""The offline library: applications profiled on every column, to train new classifiers.

Source: Paragon §3.2 and Quasar §3.2: 20-30 applications are profiled exhaustively once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.platforms import Catalogue
from apps.emulation.core.probe import exhaustive
from apps.emulation.core.seeds import generator
from apps.profiling.core.measurements import MeasuredCell

PER_KIND: Final = 7  # 28 in all


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """One application with a noisy measurement in every cell of every matrix."""

    application: str
    kind: str
    cells: tuple[MeasuredCell, ...]


def library(seed: int, platforms: Catalogue, *, per_kind: int = PER_KIND) -> list[LibraryEntry]:
    """Measure the library of a cluster; deterministic for a seed and platforms."""
    return list(entries(seed, platforms, per_kind=per_kind))


def entries(seed: int, platforms: Catalogue, *, per_kind: int) -> Iterator[LibraryEntry]:
    """Measure the library one application at a time, so that callers can show progress."""
    for kind in KINDS:
        for number in range(1, per_kind + 1):
            yield _entry(seed, platforms, f"library-{kind.replace('_', '-')}-{number:02d}", kind)


def _entry(seed: int, platforms: Catalogue, name: str, kind: str) -> LibraryEntry:
    truth = application_truth(seed, name, kind, platforms)
    return LibraryEntry(name, kind, exhaustive(truth, generator(seed, "library", name)))
