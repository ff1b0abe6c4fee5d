"""Utility matrices and their cells at any revision."""

from typing import Any, ClassVar

import numpy as np
from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.classification import selectors
from apps.classification.api.matrix_serializers import (
    CellSerializer,
    MatrixDetailSerializer,
    MatrixListSerializer,
    represent_cells,
    represent_matrix,
    represent_rows,
)
from apps.classification.core.cells import CODE_OF, Cells, Source
from apps.classification.core.matrix import MatrixName
from apps.classification.models import MatrixRevision
from apps.common.api.paging import Order, Page
from apps.common.api.problems import ProblemError
from apps.common.api.queries import Filter, choice, exact, read, read_int, read_list_query
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.problem_codes import ProblemCode
from apps.inventory.core.snapshot import Ints
from apps.workloads.selectors import application_kinds

REVISION = OpenApiParameter(
    "revision", int, description="Number of the revision. Default: the current revision."
)


def requested_revision(request: Request) -> int | None:
    """Return the requested revision number; None means the current revision."""
    given = request.query_params.get("revision")
    return None if given is None else read("revision", given, _number)


def _number(value: str) -> int:
    return read_int(value, low=1, high=2**31 - 1)


class MatrixList(ApiView):
    """The utility matrices."""

    query_parameters = frozenset({"revision"})

    @extend_schema(
        operation_id="matrices_list", responses=MatrixListSerializer, parameters=[REVISION]
    )
    def get(self, request: Request) -> Response:
        """Return the matrices of a revision, without their cells."""
        number = requested_revision(request)
        matrices = selectors.matrices_at(number)
        if not matrices and number is not None:
            raise NotFoundError(f"Revision {number} does not exist.")
        body = {
            "revision": matrices[0].revision_id if matrices else None,
            "results": [represent_matrix(row, selectors.cells_in(row)) for row in matrices],
        }
        return answer(request, body)


def named_matrix(name: str, number: int | None) -> MatrixRevision:
    """Return a matrix at a revision; ``number`` None means the current revision.

    Raises
    ------
    NotFoundError : there is no such matrix, or no such revision.
    """
    if name not in set(MatrixName):
        known = ", ".join(MatrixName)
        raise NotFoundError(f"Matrix {name} does not exist. Matrices: {known}.")
    matrix = selectors.matrix_at(MatrixName(name), number)
    if matrix is None:
        raise NotFoundError(
            "No revision exists yet. Profile a library of applications first."
            if number is None
            else f"Revision {number} does not exist."
        )
    return matrix


class MatrixDetail(ApiView):
    """One utility matrix."""

    query_parameters = frozenset({"revision"})

    @extend_schema(responses=MatrixDetailSerializer, parameters=[REVISION])
    def get(self, request: Request, name: str) -> Response:
        """Return a matrix with the names of its rows and columns."""
        matrix = named_matrix(name, requested_revision(request))
        cells = selectors.cells_in(matrix)
        body = represent_matrix(matrix, cells) | {"rows": represent_rows(matrix, cells)}
        return answer(request, body)


class MatrixCells(ListView):
    """Cells of one utility matrix, row by row; a revision never changes."""

    row_serializer = CellSerializer
    brief_fields = ("row", "column")
    orders: ClassVar = {"row": Order(("row", "column"))}
    filters: ClassVar = {
        "revision": Filter(
            lambda value: Q(revision=_number(value)),
            "Number of the revision. Default: the current revision. Page links keep it.",
            {"type": "integer"},
        ),
        "row": exact("row", "Application name."),
        "column": exact("column", "Column name."),
        "source": choice("source", [source.value for source in Source], "Source of the value."),
    }

    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return one page of cells."""
        query = read_list_query(request.query_params, self.filters)
        self.order(query)
        number, start = _read_cursor(query.cursor, requested_revision(request))
        matrix = named_matrix(kwargs["name"], number)
        cells = selectors.cells_in(matrix)
        matching = _matching(request, matrix, cells)
        at = int(np.searchsorted(matching, start))
        places = matching[at : at + query.limit].tolist()
        page: Page[Any] = Page(
            rows=represent_cells(matrix, cells, places, _kinds(matrix, places)),
            next=_cursor(matrix, matching, at + query.limit),
            previous=_cursor(matrix, matching, max(0, at - query.limit)) if at else None,
        )
        count = None if query.count is None else (int(matching.size), True)
        return self.answer_page(request, page, count)

    def represent(self, row: dict[str, Any]) -> dict[str, Any]:
        """JSON of a cell."""
        return row

    def represent_briefly(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return row and column of a cell."""
        return {"row": row["row"], "column": row["column"]}


def _matching(request: Request, matrix: MatrixRevision, cells: Cells) -> Ints:
    """Return the flat indices (row · columns + column) of matching cells, ascending."""
    params = request.query_params
    matches = np.ones(cells.shape, dtype=np.bool_)
    if "row" in params:
        matches &= np.array([name == params["row"] for name in matrix.rows])[:, None]
    if "column" in params:
        matches &= np.array([name == params["column"] for name in matrix.columns])[None, :]
    if "source" in params:
        matches &= cells["source"] == CODE_OF[Source(params["source"])]
    return np.flatnonzero(matches)


def _kinds(matrix: MatrixRevision, places: list[int]) -> dict[str, str]:
    """Return the kinds of the applications on a page if the unit depends on them."""
    if matrix.matrix != MatrixName.BASE_RATE:
        return {}
    return application_kinds({matrix.rows[place // len(matrix.columns)] for place in places})


def _cursor(matrix: MatrixRevision, matching: Ints, at: int) -> str | None:
    """Encode a revision and a flat index as a cursor; None past the end."""
    return f"{matrix.revision_id}.{matching[at]}" if at < matching.size else None


def _read_cursor(cursor: str | None, revision: int | None) -> tuple[int | None, int]:
    """Return the revision to read (None: the current one) and the first flat index."""
    if cursor is None:
        return revision, 0
    try:
        number, place = (read_int(part, low=0, high=2**31 - 1) for part in cursor.split("."))
    except ValueError as error:
        raise ProblemError(
            ProblemCode.INVALID_CURSOR,
            "The cursor is invalid. Use the next and previous links of a page.",
        ) from error
    if revision not in {None, number}:
        raise ProblemError(ProblemCode.INVALID_CURSOR, f"The cursor belongs to revision {number}.")
    return number, place
