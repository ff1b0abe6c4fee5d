"""What the Classification page shows: matrices, their revisions, how good they are."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
from django.db.models import F, Func, IntegerField, Q, QuerySet
from django.urls import reverse

from apps.classification.core.cells import Cells
from apps.classification.core.matrix import MatrixName, Scale
from apps.classification.models import Drift, MatrixRevision, Revision, RevisionReason
from apps.classification.selectors import cells_in
from apps.dashboard.core import words
from apps.dashboard.core.profile_words import MATRIX_MEANS, MATRIX_NAMES, column_name, drift_text
from apps.dashboard.figures.calibration import Calibration
from apps.dashboard.figures.matrix_heatmap import PAGE_ROWS, MatrixHeat
from apps.dashboard.figures.revision_error import RevisionErrors
from apps.dashboard.figures.singular_values import SingularValues
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import TERMINAL
from apps.operations.models import Operation
from apps.workloads.models import Application

DEFAULT_MATRIX = MatrixName.TOLERATED
REVISIONS_SHOWN = 15
REVISIONS_DRAWN = 40
DRIFTED_SHOWN = 8
REASONS = {
    RevisionReason.LIBRARY.value: "library stored",
    RevisionReason.ROWS.value: "new rows",
    RevisionReason.SCHEDULE.value: "schedule",
    RevisionReason.REQUEST.value: "request",
}
RECLASSIFY = "classification.reclassify"


@dataclass(frozen=True, slots=True)
class Asked:
    """Which part of which matrix an address asks for.

    Attributes
    ----------
    revision : None = the one in force
    page : from 1
    text : part of the names of the rows
    """

    matrix: MatrixName
    revision: int | None
    page: int = 1
    text: str = ""

    @property
    def query(self) -> str:
        """The address of a figure of the same part."""
        parts = {"matrix": self.matrix.value, "revision": self.revision or "", "q": self.text}
        page = {"page": self.page} if self.page > 1 else {}
        return "?" + urlencode({key: value for key, value in (parts | page).items() if value})


def asked(parameters: Any) -> Asked:
    """Read an address; what is not known is left out."""
    name = parameters.get("matrix", "")
    return Asked(
        matrix=MatrixName(name) if name in set(MatrixName) else DEFAULT_MATRIX,
        revision=_whole(parameters.get("revision", "")),
        page=_whole(parameters.get("page", "")) or 1,
        text=parameters.get("q", "").strip(),
    )


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**31 else None


# ---- the matrix ----


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows of a matrix are on a page.

    Attributes
    ----------
    places : of the rows shown; matching : how many rows match in all
    """

    places: tuple[int, ...]
    matching: int
    page: int
    pages: int

    @property
    def previous(self) -> int:
        """The page before."""
        return self.page - 1

    @property
    def next(self) -> int:
        """The page after."""
        return self.page + 1


def rows_shown(names: Mapping[int, str], wanted: Asked) -> Rows:
    """Return the rows of the page asked for, the nearest where there is no such page.

    Parameters
    ----------
    names : by place in the matrix, of the rows that it tells something of
    """
    text = wanted.text.lower()
    matching = [i for i, name in names.items() if text in name.lower()]
    pages = max(1, -(-len(matching) // PAGE_ROWS))
    page = min(wanted.page, pages)
    first = (page - 1) * PAGE_ROWS
    return Rows(tuple(matching[first : first + PAGE_ROWS]), len(matching), page, pages)


def row_names(wanted: Asked) -> dict[int, str]:
    """Read the names of the rows of a matrix at a revision; none where there is no revision."""
    if wanted.matrix is MatrixName.FRAMEWORK:  # only analytics have rows in it
        stored = stored_matrix(wanted)
        return {} if stored is None else _told(stored, cells_in(stored))
    names = _at(wanted).values_list("rows", flat=True).first()
    return dict(enumerate(names or []))


def _told(stored: MatrixRevision, cells: Cells) -> dict[int, str]:
    """Names by place of the rows of which something is known or inferred."""
    told = ((cells["samples"] > 0) | ~np.isnan(cells["estimate"])).any(axis=1)
    return {i: name for i, name in enumerate(stored.rows) if told[i]}


def stored_matrix(wanted: Asked) -> MatrixRevision | None:
    """Find a matrix at a revision; None where there is none."""
    return _at(wanted).first()


def _at(wanted: Asked) -> QuerySet[MatrixRevision]:
    number = wanted.revision
    at = Q(revision__is_current=True) if number is None else Q(revision_id=number)
    return MatrixRevision.objects.filter(at, matrix=wanted.matrix.value)


def heat(wanted: Asked) -> MatrixHeat:
    """Return one page of a matrix; three statements."""
    stored = stored_matrix(wanted)
    if stored is None:
        return _nothing(wanted.matrix)
    cells = cells_in(stored)
    names_told = _told(stored, cells)
    shown = rows_shown(names_told, wanted)
    places = list(shown.places)
    names = tuple(stored.rows[i] for i in places)
    kinds = dict(Application.objects.filter(name__in=names).values_list("name", "kind"))
    part = cells[places]
    is_known = part["samples"] > 0
    return MatrixHeat(
        matrix=wanted.matrix,
        revision=stored.revision_id,
        rows=names,
        links=tuple(reverse("application", args=[n]) if n in kinds else "" for n in names),
        kinds=tuple(kinds.get(name) or kind_of_library_row(name) for name in names),
        library=np.array([i < stored.library_rows for i in places], dtype=np.bool_),
        columns=tuple(column_name(wanted.matrix, column) for column in stored.columns),
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
        cells=len(names_told) * len(stored.columns),
        now_s=cluster_now(),
    )


def kind_of_library_row(name: str) -> str:
    """Return the kind that the name of an application of the library tells; "" where it does not.

    The library's own names say it: library-latency-critical-03.
    """
    for kind in ("latency_critical", "single_node", "analytics", "batch"):
        if name.startswith(f"library-{kind.replace('_', '-')}-"):
            return kind
    return ""


def _nothing(matrix: MatrixName) -> MatrixHeat:
    none = np.zeros((0, 0))
    return MatrixHeat(
        matrix=matrix,
        revision=0,
        rows=(),
        links=(),
        kinds=(),
        library=np.zeros(0, dtype=np.bool_),
        columns=(),
        column_keys=(),
        value=none,
        low=none,
        high=none,
        source=none.astype(np.uint8),
        samples=none.astype(np.int32),
        measured_s=none,
        first=0,
        matching=0,
        known=0,
        cells=0,
        now_s=0.0,
    )


# ---- how good it is ----


def singular_values(wanted: Asked) -> SingularValues:
    """Return the singular values of a matrix at a revision."""
    found = _without_cells(wanted)
    values = np.array(found.singular_values if found else [], dtype=np.float64)
    number = found.revision_id if found else 0
    return SingularValues(values, MATRIX_NAMES[wanted.matrix].lower(), number)


def calibration(wanted: Asked) -> Calibration:
    """Return what the intervals of a matrix hold at a revision."""
    found = _without_cells(wanted)
    report = found.evaluation if found else {}
    number = found.revision_id if found else 0
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


def revision_errors(wanted: Asked) -> RevisionErrors:
    """Return the evaluations of one matrix at the latest revisions, oldest first."""
    rows = MatrixRevision.objects.filter(matrix=wanted.matrix.value, evaluation__rows__gt=0)
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
        is_points=wanted.matrix.scale is Scale.SCORE,
        entries=reports[-1]["entries"] if reports else 0,
    )


def _without_cells(wanted: Asked) -> MatrixRevision | None:
    return _at(wanted).only("revision_id", "singular_values", "evaluation").first()


# ---- revisions ----


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """One revision as it is listed, with how well it infers the chosen matrix.

    Attributes
    ----------
    p90, covered : None = not tried out yet, or too few rows
    """

    revision: Revision
    reason: str
    library_rows: int
    live_rows: int
    p90: float | None
    covered: float | None
    is_points: bool
    is_too_small: bool
    shown: bool

    @property
    def covered_text(self) -> str:
        """Return the share of hidden cells inside 90 % intervals, or why there is none."""
        if self.covered is not None:
            return words.percent(self.covered)
        return "too few cells to tell" if self.is_too_small else "not tried out yet"

    @property
    def p90_text(self) -> str:
        """Its error in its unit."""
        if self.p90 is None:
            return "–"
        return (
            f"{words.significant(100 * self.p90, 2)} points"
            if self.is_points
            else words.percent(self.p90)
        )


@dataclass(frozen=True, slots=True)
class Revisions:
    """The latest revisions and how many there are."""

    rows: tuple[RevisionRow, ...]
    all: int
    current: Revision | None

    @property
    def shown(self) -> RevisionRow | None:
        """The one the page is about."""
        return next((row for row in self.rows if row.shown), None)


def revisions(wanted: Asked) -> Revisions:
    """Return the latest revisions, newest first, and always the one asked for; four statements."""
    latest = list(Revision.objects.order_by("-number")[:REVISIONS_SHOWN])
    current = next((row for row in latest if row.is_current), None)
    if current is None:
        current = Revision.objects.filter(is_current=True).first()
    number = wanted.revision or (current.number if current else None)
    if number is not None and all(row.number != number for row in latest):
        latest += list(Revision.objects.filter(number=number))
    counts = {
        row["revision_id"]: row
        for row in MatrixRevision.objects.filter(
            revision__in=[row.number for row in latest], matrix=wanted.matrix.value
        )
        .annotate(all_rows=Func(F("rows"), function="cardinality", output_field=IntegerField()))
        .values("revision_id", "all_rows", "library_rows", "evaluation")
    }
    rows = tuple(_revision(row, counts.get(row.number), wanted, number) for row in latest)
    return Revisions(rows, Revision.objects.count(), current)


def _revision(
    row: Revision, counts: Mapping[str, Any] | None, wanted: Asked, number: int | None
) -> RevisionRow:
    found = counts or {"all_rows": 0, "library_rows": 0, "evaluation": {}}
    report = found["evaluation"] if found["evaluation"].get("rows") else {}
    return RevisionRow(
        revision=row,
        reason=REASONS.get(row.reason, row.reason),
        library_rows=found["library_rows"],
        live_rows=found["all_rows"] - found["library_rows"],
        p90=report.get("p90"),
        covered=report.get("covered"),
        is_points=wanted.matrix.scale is Scale.SCORE,
        is_too_small=found["evaluation"].get("rows") == 0,
        shown=row.number == number,
    )


@dataclass(frozen=True, slots=True)
class MatrixChoice:
    """One of the six matrices to choose from."""

    key: str
    name: str
    means: str
    current: bool


def matrices(wanted: Asked) -> list[MatrixChoice]:
    """Return the six matrices."""
    return [
        MatrixChoice(name.value, MATRIX_NAMES[name], MATRIX_MEANS[name], name is wanted.matrix)
        for name in MatrixName
    ]


# ---- what goes on ----


@dataclass(frozen=True, slots=True)
class DriftRow:
    """An application whose predictions went wrong."""

    application: Application
    text: str
    since_s: float
    observations: int


def drifted() -> tuple[list[DriftRow], int]:
    """Return the applications that drifted last, and how many there are in all."""
    rows = Drift.objects.filter(flagged_s__isnull=False).select_related("application")
    shown = [
        DriftRow(
            row.application, drift_text(row.mean_error), row.flagged_s or 0.0, row.observations
        )
        for row in rows.order_by("-flagged_s")[:DRIFTED_SHOWN]
    ]
    return shown, rows.count()


def open_reclassification() -> Operation | None:
    """Find the operation that makes the next revision."""
    rows = Operation.objects.filter(kind=RECLASSIFY).exclude(status__in=TERMINAL)
    return rows.order_by("created_at").first()
