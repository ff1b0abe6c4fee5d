"""Revisions of the utility matrices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.db.models import Max, Q, QuerySet

from apps.classification.core.cells import (
    Cells,
    KnownCell,
    SourceCode,
    decode_cells,
    training_matrix,
)
from apps.classification.core.estimators import DEFAULT
from apps.classification.core.inference import POOLS, Library, fitted_model, pool_rows
from apps.classification.core.matrix import MatrixName
from apps.classification.models import MatrixRevision, Revision
from apps.common.core.errors import ConflictError
from apps.inventory.models import Platform, Server


class NoLibraryError(ConflictError, ValueError):
    """There is no matrix revision yet."""


def current_number() -> int | None:
    """Return the number of the current revision; None before the first."""
    return Revision.objects.filter(is_current=True).values_list("number", flat=True).first()


def current_library() -> Library:
    """Return the training rows of the current revision; cached per process.

    Raises
    ------
    NoLibraryError : there is no revision yet.
    """
    return _library(*_current())


def warm_up() -> None:
    """Load the current revision and fit its estimators before the first fold-in needs them."""
    if current_number() is not None:
        library = current_library()
        platforms = library.matrices[MatrixName.HETEROGENEITY].columns
        for pool in POOLS:
            if all(name in library.matrices and library.matrices[name].rows for name in pool):
                fitted_model(DEFAULT, pool[0].scale, pool_rows(library, pool, platforms))


def current_columns() -> dict[MatrixName, tuple[str, ...]]:
    """Return the column labels of each matrix of the current revision.

    Raises
    ------
    NoLibraryError : there is no revision yet.
    """
    return {name: matrix.columns for name, matrix in current_library().matrices.items()}


def unprofiled_platforms() -> list[str]:
    """Return the platforms of the cluster that the current library does not cover, by rank."""
    is_known = current_number() is not None
    columns = current_columns()[MatrixName.HETEROGENEITY] if is_known else ()
    platforms = Platform.objects.order_by("rank").values_list("name", flat=True)
    return [platform for platform in platforms if platform not in columns]


def server_units() -> dict[str, int]:
    """Return the units of the largest server of each platform that has servers."""
    largest = Server.objects.order_by().values("platform__name").annotate(max_units=Max("cores"))
    return dict(largest.values_list("platform__name", "max_units"))


@dataclass(frozen=True, slots=True)
class LibraryRows:
    """The offline library as stored in the current revision.

    Attributes
    ----------
    rows : known cells of each application of it, by name
    columns : of each matrix
    """

    number: int
    rows: Mapping[str, Sequence[KnownCell]]
    columns: Mapping[MatrixName, tuple[str, ...]]

    @property
    def platforms(self) -> tuple[str, ...]:
        """Highest-end first."""
        return self.columns[MatrixName.HETEROGENEITY]


def library_rows() -> LibraryRows:
    """Return the offline library of the current revision.

    Raises
    ------
    NoLibraryError : there is no revision yet.
    """
    number, _ = _current()
    rows: dict[str, list[KnownCell]] = {}
    columns: dict[MatrixName, tuple[str, ...]] = {}
    for stored in MatrixRevision.objects.filter(revision_id=number).order_by("id"):
        name = MatrixName(stored.matrix)
        columns[name] = tuple(stored.columns)
        cells = cells_in(stored)[: stored.library_rows]
        for application, row in zip(stored.rows, cells, strict=False):
            rows.setdefault(application, []).extend(_known(name, stored.columns, row))
    return LibraryRows(number, rows, columns)


def revisions() -> QuerySet[Revision]:
    """Return all revisions."""
    return Revision.objects.all()


def matrices_of(numbers: Iterable[int]) -> QuerySet[MatrixRevision]:
    """Return the matrices of some revisions without their cells."""
    return MatrixRevision.objects.filter(revision_id__in=list(numbers)).defer("cells")


def matrices_at(number: int | None) -> list[MatrixRevision]:
    """Return the matrices of a revision with their cells; empty if it does not exist.

    Parameters
    ----------
    number : None = the current revision
    """
    at = Q(revision__is_current=True) if number is None else Q(revision_id=number)
    rows = MatrixRevision.objects.filter(at).select_related("revision")
    place = {name.value: i for i, name in enumerate(MatrixName)}
    return sorted(rows, key=lambda row: place[row.matrix])


def matrix_at(name: MatrixName, number: int | None) -> MatrixRevision | None:
    """Return one matrix of a revision (None: the current one); None if it does not exist."""
    at = Q(revision__is_current=True) if number is None else Q(revision_id=number)
    rows = MatrixRevision.objects.filter(at, matrix=name.value)
    return rows.select_related("revision").first()


def cells_in(stored: MatrixRevision) -> Cells:
    """Return the (rows, columns) cells of a stored matrix."""
    return decode_cells(bytes(stored.cells), len(stored.rows), len(stored.columns))


def _current() -> tuple[int, datetime]:
    current = Revision.objects.filter(is_current=True).values_list("number", "created_at").first()
    if current is None:
        raise NoLibraryError(
            "there is no library of profiled applications: "
            "create one with `manage.py profile_library`"
        )
    return current


@lru_cache(maxsize=2)
def _library(number: int, created_at: datetime) -> Library:
    """Load a revision; the time distinguishes equal numbers before and after a reset."""
    stored = {row.matrix: row for row in MatrixRevision.objects.filter(revision_id=number)}
    matrices = {}
    for name in MatrixName:
        if (row := stored.get(name.value)) is not None:  # old revisions lack new matrices
            matrices[name] = training_matrix(name, row.rows, row.columns, cells_in(row))
    return Library(number, matrices)


def _known(name: MatrixName, columns: Sequence[str], row: Cells) -> list[KnownCell]:
    return [
        KnownCell(
            name,
            column,
            float(cell["value"]),
            float(cell["standard_error"]),
            SourceCode(int(cell["source"])).source,
            int(cell["samples"]),
            float(cell["measured_s"]),
        )
        for column, cell in zip(columns, row, strict=True)
        if cell["samples"]
    ]
