"""Revisions of the utility matrices: what every fold starts from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.db.models import Max, Q, QuerySet

from apps.classification.core.assemble import POOLS, Library, model_of, pooled
from apps.classification.core.cells import Cells, KnownCell, SourceCode, read, training
from apps.classification.core.estimators import DEFAULT
from apps.classification.core.matrix import MatrixName
from apps.classification.models import MatrixRevision, Revision
from apps.common.core.errors import ConflictError
from apps.inventory.models import Platform, Server


class NoLibraryError(ConflictError, ValueError):
    """No matrix revision to classify by."""


def current_number() -> int | None:
    """Find the number of the revision in force; None before the first."""
    return Revision.objects.filter(is_current=True).values_list("number", flat=True).first()


def current_library() -> Library:
    """Rows to learn from of the revision in force; read once per revision and process.

    Raises
    ------
    NoLibraryError : there is no revision yet.
    """
    return _library(*_current())


def warm_up() -> None:
    """Read the revision in force and fit its estimators, so that the next fold need not."""
    if current_number() is not None:
        library = current_library()
        platforms = library.matrices[MatrixName.HETEROGENEITY].columns
        for pool in POOLS:
            if all(name in library.matrices and library.matrices[name].rows for name in pool):
                model_of(DEFAULT, pool[0].scale, pooled(library, pool, platforms))


def current_columns() -> dict[MatrixName, tuple[str, ...]]:
    """Column labels of each matrix of the revision in force.

    Raises
    ------
    NoLibraryError : there is no revision yet.
    """
    return {name: matrix.columns for name, matrix in current_library().matrices.items()}


def unprofiled_platforms() -> list[str]:
    """Platforms of the cluster of which the current library knows nothing; best first."""
    is_known = current_number() is not None
    columns = current_columns()[MatrixName.HETEROGENEITY] if is_known else ()
    platforms = Platform.objects.order_by("rank").values_list("name", flat=True)
    return [platform for platform in platforms if platform not in columns]


def server_units() -> dict[str, int]:
    """Units of the largest server of each platform that has servers."""
    largest = Server.objects.order_by().values("platform__name").annotate(most=Max("cores"))
    return dict(largest.values_list("platform__name", "most"))


@dataclass(frozen=True, slots=True)
class LibraryRows:
    """The offline library as it is stored in the revision in force.

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
    """Read the offline library back from the revision in force.

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
    """Return the matrices of some revisions with what they are made of, but without the cells."""
    return MatrixRevision.objects.filter(revision_id__in=list(numbers)).defer("cells")


def matrices_at(number: int | None) -> list[MatrixRevision]:
    """Read the six matrices of a revision, cells included; none where there is no such revision.

    Parameters
    ----------
    number : None = the revision in force
    """
    at = Q(revision__is_current=True) if number is None else Q(revision_id=number)
    rows = MatrixRevision.objects.filter(at).select_related("revision")
    place = {name.value: i for i, name in enumerate(MatrixName)}
    return sorted(rows, key=lambda row: place[row.matrix])


def matrix_at(name: MatrixName, number: int | None) -> MatrixRevision | None:
    """Read one matrix of a revision, None = that in force; None where there is none."""
    at = Q(revision__is_current=True) if number is None else Q(revision_id=number)
    found = MatrixRevision.objects.filter(at, matrix=name.value)
    return found.select_related("revision").first()


def cells_in(stored: MatrixRevision) -> Cells:
    """(rows, columns) cells of a stored matrix."""
    return read(bytes(stored.cells), len(stored.rows), len(stored.columns))


def _current() -> tuple[int, datetime]:
    found = Revision.objects.filter(is_current=True).values_list("number", "created_at").first()
    if found is None:
        raise NoLibraryError(
            "there is no library of profiled applications: "
            "make one with `manage.py profile_library`"
        )
    return found


@lru_cache(maxsize=2)
def _library(number: int, created_at: datetime) -> Library:
    """Read a revision; its time tells it from one of the same number before a reset."""
    stored = {row.matrix: row for row in MatrixRevision.objects.filter(revision_id=number)}
    matrices = {}
    for name in MatrixName:
        if (row := stored.get(name.value)) is not None:  # revisions of old lack the latest
            matrices[name] = training(name, row.rows, row.columns, cells_in(row))
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
