"""Data of the Classification page: matrices, their accuracy, drift and retraining."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
from django.db.models import Q, QuerySet
from django.urls import reverse

from apps.accounts.core.principal import Principal
from apps.classification.core.cells import Cells
from apps.classification.core.matrix import MatrixName, Scale
from apps.classification.models import Drift, MatrixRevision
from apps.classification.selectors import cells_in
from apps.dashboard.core.profile_text import MATRIX_MEANS, MATRIX_NAMES, column_name, drift_text
from apps.dashboard.figures.calibration import Calibration
from apps.dashboard.figures.matrix_heatmap import PAGE_ROWS, MatrixHeat
from apps.dashboard.figures.revision_error import RevisionErrors
from apps.dashboard.figures.singular_values import SingularValues
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import TERMINAL
from apps.operations.models import Operation
from apps.operations.selectors import operations
from apps.workloads.models import Application

DEFAULT_MATRIX = MatrixName.TOLERATED
REVISIONS_DRAWN = 40
DRIFTED_SHOWN = 8
RECLASSIFY = "classification.reclassify"


@dataclass(frozen=True, slots=True)
class MatrixQuery:
    """The part of a matrix that an address requests.

    Attributes
    ----------
    revision : None = the current one
    page : from 1
    text : substring of the row names
    """

    matrix: MatrixName
    revision: int | None
    page: int = 1
    text: str = ""

    @property
    def query(self) -> str:
        """Query string of figures for the same part."""
        parts = {"matrix": self.matrix.value, "revision": self.revision or "", "q": self.text}
        page = {"page": self.page} if self.page > 1 else {}
        return "?" + urlencode({key: value for key, value in (parts | page).items() if value})


def read_query(parameters: Any) -> MatrixQuery:
    """Read an address; unknown values are ignored."""
    name = parameters.get("matrix", "")
    return MatrixQuery(
        matrix=MatrixName(name) if name in set(MatrixName) else DEFAULT_MATRIX,
        revision=_positive_int(parameters.get("revision", "")),
        page=_positive_int(parameters.get("page", "")) or 1,
        text=parameters.get("q", "").strip(),
    )


def _positive_int(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**31 else None


# ---- the matrix ----


@dataclass(frozen=True, slots=True)
class RowPage:
    """The rows of a matrix on one page.

    Attributes
    ----------
    places : indices of the rows shown
    matching : number of matching rows
    """

    places: tuple[int, ...]
    matching: int
    page: int
    pages: int

    @property
    def previous(self) -> int:
        """Number of the previous page."""
        return self.page - 1

    @property
    def next(self) -> int:
        """Number of the next page."""
        return self.page + 1


def rows_shown(names: Mapping[int, str], query: MatrixQuery) -> RowPage:
    """Return the rows of the requested page, or of the last one if it does not exist.

    Parameters
    ----------
    names : by index in the matrix, of the rows with a known or inferred cell
    """
    text = query.text.lower()
    matching = [i for i, name in names.items() if text in name.lower()]
    pages = max(1, -(-len(matching) // PAGE_ROWS))
    page = min(query.page, pages)
    first = (page - 1) * PAGE_ROWS
    return RowPage(tuple(matching[first : first + PAGE_ROWS]), len(matching), page, pages)


def row_names(query: MatrixQuery) -> dict[int, str]:
    """Return the row names of a matrix at a revision; empty if there is no such revision."""
    if query.matrix is MatrixName.FRAMEWORK:  # only analytics have rows in it
        stored = stored_matrix(query)
        return {} if stored is None else _filled_rows(stored, cells_in(stored))
    names = _revision_rows(query).values_list("rows", flat=True).first()
    return dict(enumerate(names or []))


def _filled_rows(stored: MatrixRevision, cells: Cells) -> dict[int, str]:
    """Return names by index of the rows with a known or inferred cell."""
    has_value = ((cells["samples"] > 0) | ~np.isnan(cells["estimate"])).any(axis=1)
    return {i: name for i, name in enumerate(stored.rows) if has_value[i]}


def stored_matrix(query: MatrixQuery) -> MatrixRevision | None:
    """Return a matrix at a revision, or None if there is no such revision."""
    return _revision_rows(query).first()


def _revision_rows(query: MatrixQuery) -> QuerySet[MatrixRevision]:
    number = query.revision
    at = Q(revision__is_current=True) if number is None else Q(revision_id=number)
    return MatrixRevision.objects.filter(at, matrix=query.matrix.value)


def heat(query: MatrixQuery) -> MatrixHeat:
    """Return one page of a matrix; three statements."""
    stored = stored_matrix(query)
    if stored is None:
        return _empty_heat(query.matrix)
    cells = cells_in(stored)
    filled = _filled_rows(stored, cells)
    shown = rows_shown(filled, query)
    places = list(shown.places)
    names = tuple(stored.rows[i] for i in places)
    kinds = dict(Application.objects.filter(name__in=names).values_list("name", "kind"))
    part = cells[places]
    is_known = part["samples"] > 0
    return MatrixHeat(
        matrix=query.matrix,
        revision=stored.revision_id,
        rows=names,
        links=tuple(reverse("application", args=[n]) if n in kinds else "" for n in names),
        kinds=tuple(kinds.get(name) or kind_of_library_row(name) for name in names),
        library=np.array([i < stored.library_rows for i in places], dtype=np.bool_),
        columns=tuple(column_name(query.matrix, column) for column in stored.columns),
        column_keys=tuple(stored.columns),
        value=np.where(is_known, part["value"], part["estimate"]),
        low=part["low"],
        high=part["high"],
        source=part["source"],
        samples=part["samples"],
        measured_s=part["measured_s"],
        first=(shown.page - 1) * PAGE_ROWS,
        matching=shown.matching,
        known=int((cells["samples"] > 0).sum()),
        cells=len(filled) * len(stored.columns),
        now_s=cluster_now(),
    )


def kind_of_library_row(name: str) -> str:
    """Return the kind in the name of a library application, e.g. library-batch-03; "" if none."""
    for kind in ("latency_critical", "single_node", "analytics", "batch"):
        if name.startswith(f"library-{kind.replace('_', '-')}-"):
            return kind
    return ""


def _empty_heat(matrix: MatrixName) -> MatrixHeat:
    nothing = np.zeros((0, 0))
    return MatrixHeat(
        matrix=matrix,
        revision=0,
        rows=(),
        links=(),
        kinds=(),
        library=np.zeros(0, dtype=np.bool_),
        columns=(),
        column_keys=(),
        value=nothing,
        low=nothing,
        high=nothing,
        source=nothing.astype(np.uint8),
        samples=nothing.astype(np.int32),
        measured_s=nothing,
        first=0,
        matching=0,
        known=0,
        cells=0,
        now_s=0.0,
    )


# ---- how good it is ----


def singular_values(query: MatrixQuery) -> SingularValues:
    """Return the singular values of a matrix at a revision."""
    stored = _without_cells(query)
    values = np.array(stored.singular_values if stored else [], dtype=np.float64)
    number = stored.revision_id if stored else 0
    return SingularValues(values, MATRIX_NAMES[query.matrix].lower(), number)


def calibration(query: MatrixQuery) -> Calibration:
    """Return the calibration of the intervals of a matrix at a revision."""
    stored = _without_cells(query)
    report = stored.evaluation if stored else {}
    number = stored.revision_id if stored else 0
    if not report.get("rows"):
        nothing, too_small = np.zeros(0), report.get("rows") == 0
        return Calibration(nothing, nothing, math.nan, 0, 0, number, is_too_small=too_small)
    return Calibration(
        levels=np.array(report["levels"]),
        observed=np.array(report["calibration"]),
        covered=report["covered"],
        cells=report["cells"],
        rows=report["rows"],
        revision=number,
    )


def revision_errors(query: MatrixQuery) -> RevisionErrors:
    """Return the evaluations of one matrix at the latest revisions, oldest first."""
    rows = MatrixRevision.objects.filter(matrix=query.matrix.value, evaluation__rows__gt=0)
    latest = list(
        rows.order_by("-revision_id").values_list("revision_id", "evaluation")[:REVISIONS_DRAWN]
    )[::-1]
    reports = [report for _, report in latest]
    return RevisionErrors(
        numbers=np.array([number for number, _ in latest], dtype=np.int64),
        average=np.array([report["average"] for report in reports]),
        p50=np.array([report["p50"] for report in reports]),
        p90=np.array([report["p90"] for report in reports]),
        covered=np.array([report["covered"] for report in reports]),
        rows=np.array([report["rows"] for report in reports], dtype=np.int64),
        is_points=query.matrix.scale is Scale.SCORE,
        entries=reports[-1]["entries"] if reports else 0,
    )


def _without_cells(query: MatrixQuery) -> MatrixRevision | None:
    return _revision_rows(query).only("revision_id", "singular_values", "evaluation").first()


# ---- matrices ----


@dataclass(frozen=True, slots=True)
class MatrixChoice:
    """One matrix to choose from."""

    key: str
    name: str
    means: str
    current: bool


def matrices(query: MatrixQuery) -> list[MatrixChoice]:
    """Return all matrices."""
    return [
        MatrixChoice(name.value, MATRIX_NAMES[name], MATRIX_MEANS[name], name is query.matrix)
        for name in MatrixName
    ]


# ---- drift and retraining ----


@dataclass(frozen=True, slots=True)
class DriftRow:
    """An application whose predictions have drifted."""

    application: Application
    text: str
    since_s: float
    observations: int


def drifted() -> tuple[list[DriftRow], int]:
    """Return the applications that drifted last, and the number of all drifted ones."""
    rows = Drift.objects.filter(flagged_s__isnull=False).select_related("application")
    shown = [
        DriftRow(
            row.application, drift_text(row.mean_error), row.flagged_s or 0.0, row.observations
        )
        for row in rows.order_by("-flagged_s")[:DRIFTED_SHOWN]
    ]
    return shown, rows.count()


def open_reclassification(principal: Principal) -> Operation | None:
    """Return the operation that trains the next revision, if the user may read it."""
    rows = operations(principal).filter(kind=RECLASSIFY).exclude(status__in=TERMINAL)
    return rows.order_by("created_at").first()
