"""The utility matrices, at the revision in force or an earlier one, and their cells."""

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
from apps.common.core.errors import NotFoundError
from apps.common.core.problem_codes import ProblemCode
from apps.common.paging import Order, Page
from apps.common.problems import ProblemError
from apps.common.queries import Filter, choice, exact, read, read_int, read_list_query
from apps.common.views import ApiView, ListView, answer
from apps.inventory.core.snapshot import Ints
from apps.workloads.selectors import application_kinds

REVISION = OpenApiParameter(
    "revision", int, description="Of which revision; that in force when left out."
)


def asked_revision(request: Request) -> int | None:
    """Return the revision a request asks for; None = that in force."""
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
        number = asked_revision(request)
        found = selectors.matrices_at(number)
        if not found and number is not None:
            raise NotFoundError(f"There is no revision {number}.")
        body = {
            "revision": found[0].revision_id if found else None,
            "results": [represent_matrix(row, selectors.cells_in(row)) for row in found],
        }
        return answer(request, body)


def named_matrix(name: str, number: int | None) -> MatrixRevision:
    """Return a matrix at a revision, None = that in force.

    Raises
    ------
    NotFoundError : there is no such matrix, or no such revision.
    """
    if name not in set(MatrixName):
        known = ", ".join(MatrixName)
        raise NotFoundError(f"There is no matrix {name}; there are {known}.")
    found = selectors.matrix_at(MatrixName(name), number)
    if found is None:
        raise NotFoundError(
            "There is no revision yet: no library of applications has been profiled."
            if number is None
            else f"There is no revision {number}."
        )
    return found


class MatrixDetail(ApiView):
    """One utility matrix."""

    query_parameters = frozenset({"revision"})

    @extend_schema(responses=MatrixDetailSerializer, parameters=[REVISION])
    def get(self, request: Request, name: str) -> Response:
        """Return a matrix with the names of its rows and columns."""
        found = named_matrix(name, asked_revision(request))
        cells = selectors.cells_in(found)
        body = represent_matrix(found, cells) | {"rows": represent_rows(found, cells)}
        return answer(request, body)


class MatrixCells(ListView):
    """The cells of one utility matrix, row by row; those of a revision never change."""

    row_serializer = CellSerializer
    orders: ClassVar = {"row": Order(("row", "column"))}
    filters: ClassVar = {
        "revision": Filter(
            lambda value: Q(revision=_number(value)),
            "Of this revision; that in force when left out. Links keep to it.",
            {"type": "integer"},
        ),
        "row": exact("row", "Of this application."),
        "column": exact("column", "Of this column."),
        "source": choice("source", [source.value for source in Source], "From this source."),
    }

    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return one page of cells."""
        query = read_list_query(request.query_params, self.filters)
        self.order(query)
        number, start = _read_cursor(query.cursor, asked_revision(request))
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
        """Return where the cell is."""
        return {"row": row["row"], "column": row["column"]}


def _matching(request: Request, matrix: MatrixRevision, cells: Cells) -> Ints:
    """Return the places (row · columns + column) of the cells asked for, ascending."""
    params = request.query_params
    wanted = np.ones(cells.shape, dtype=np.bool_)
    if "row" in params:
        wanted &= np.array([name == params["row"] for name in matrix.rows])[:, None]
    if "column" in params:
        wanted &= np.array([name == params["column"] for name in matrix.columns])[None, :]
    if "source" in params:
        wanted &= cells["source"] == CODE_OF[Source(params["source"])]
    return np.flatnonzero(wanted)


def _kinds(matrix: MatrixRevision, places: list[int]) -> dict[str, str]:
    """Return the kinds of the applications on a page, where the unit depends on them."""
    if matrix.matrix != MatrixName.BASE_RATE:
        return {}
    return application_kinds({matrix.rows[place // len(matrix.columns)] for place in places})


def _cursor(matrix: MatrixRevision, matching: Ints, at: int) -> str | None:
    """Name a revision and a place in it; None past the end."""
    return f"{matrix.revision_id}.{matching[at]}" if at < matching.size else None


def _read_cursor(cursor: str | None, revision: int | None) -> tuple[int | None, int]:
    """Return the revision to read, None = that in force, and the place to start from."""
    if cursor is None:
        return revision, 0
    try:
        number, place = (read_int(part, low=0, high=2**31 - 1) for part in cursor.split("."))
    except ValueError as error:
        raise ProblemError(
            ProblemCode.INVALID_CURSOR, "The cursor is damaged or was not made here."
        ) from error
    if revision not in {None, number}:
        raise ProblemError(
            ProblemCode.INVALID_CURSOR, f"The cursor was made for revision {number}."
        )
    return number, place
