"""Data of an application's page."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from django.db.models import Count, Q, QuerySet
from django.http import Http404

from apps.classification.core.cells import Source
from apps.classification.core.matrix import MatrixName
from apps.classification.core.similarity import COMPARED, Neighbour, Space, nearest, space_of
from apps.classification.models import Drift, MatrixRevision, Override, PredictionError, Profile
from apps.classification.selectors import cells_in, current_number
from apps.common.core.interference import SOURCE_NAMES
from apps.dashboard.core import labels
from apps.dashboard.core.profile_cells import Cells, ProfileCell, read_cells
from apps.dashboard.core.profile_text import (
    MATRIX_NAMES,
    SOURCE_WORDS,
    column_name,
    error_text,
    interval_text,
    sentence,
    shared,
    typed_unit,
    value_text,
)
from apps.dashboard.figures.interference import Interference
from apps.dashboard.figures.marks import MatrixRow
from apps.dashboard.figures.prediction_error import PredictionErrors
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.imported import report_cells
from apps.profiling.models import ImportedReport
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.models import Application, Job

ERRORS_SHOWN = 500
OVERRIDES_SHOWN = 20
MAX_NEIGHBOURS = 4
MAX_REPORTS = 20
# listed explicitly, so that the index on state finds the few open jobs
OPEN_STATES = (*WAITING_STATES, JobState.STARTING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class ProfiledApplication:
    """An application with its current profile; None = not profiled yet."""

    application: Application
    profile: Profile | None

    @property
    def cells(self) -> Cells:
        """Cells of the profile by matrix; empty without a profile."""
        return {} if self.profile is None else read_cells(self.profile.cells)

    def row(self, matrix: MatrixName) -> MatrixRow:
        """One row of a matrix, for a figure."""
        cells = tuple(self.cells.get(matrix, ()))
        return MatrixRow(self.application.name, self.application.kind, cells)


def profiled_application(name: str) -> ProfiledApplication:
    """Return an application with its profile; two statements.

    Raises
    ------
    Http404 : there is no such application.
    """
    application = Application.objects.select_related("drift").filter(name=name).first()
    if application is None:
        raise Http404(f"there is no application called {name!r}")
    profile = Profile.objects.filter(application=application, is_current=True).first()
    return ProfiledApplication(application, profile)


def matrix_row(name: str, matrix: MatrixName) -> MatrixRow:
    """Return the row of one application in a matrix."""
    return profiled_application(name).row(matrix)


def interference(name: str) -> Interference:
    """Return the pressure an application tolerates and causes."""
    profiled = profiled_application(name)
    return Interference(profiled.row(MatrixName.TOLERATED), profiled.row(MatrixName.CAUSED))


def prediction_errors(name: str, visible: QuerySet[Job]) -> PredictionErrors:
    """Return the latest observations of an application's jobs, oldest first.

    A job that the user may not see has no name: its errors judge the profile that all share.
    """
    application = profiled_application(name).application
    rows = PredictionError.objects.filter(application=application, predicted__gt=0, measured__gt=0)
    latest = list(
        rows.order_by("-cluster_s", "-id").values_list(
            "cluster_s", "measured", "predicted", "deviation", "job_id"
        )[:ERRORS_SHOWN]
    )[::-1]
    numbers = np.array([row[:4] for row in latest], dtype=np.float64).reshape(-1, 4)
    names = dict(visible.filter(id__in={row[4] for row in latest}).values_list("id", "name"))
    drift = Drift.objects.filter(application=application)
    flagged_s = drift.values_list("flagged_s", flat=True).first()
    return PredictionErrors(
        application=name,
        times_s=numbers[:, 0],
        ratio=numbers[:, 1] / numbers[:, 2],
        deviation=numbers[:, 3],
        jobs=tuple(names.get(row[4], labels.HIDDEN_JOB) for row in latest),
        flagged_s=math.nan if flagged_s is None else flagged_s,
    )


@dataclass(frozen=True, slots=True)
class ApplicationJobCounts:
    """Number of visible open jobs of an application."""

    running: int
    waiting: int


def job_counts(seen: QuerySet[Job], application: Application) -> ApplicationJobCounts:
    """Count the visible open jobs of an application."""
    open_jobs = seen.filter(application=application, state__in=OPEN_STATES).order_by()
    counts = open_jobs.aggregate(
        all=Count("id"), waiting=Count("id", filter=Q(state__in=WAITING_STATES))
    )
    return ApplicationJobCounts(counts["all"] - counts["waiting"], counts["waiting"])


def overrides(application: Application) -> Sequence[Override]:
    """Return overrides: those in force first, then the latest withdrawn ones."""
    rows = Override.objects.filter(application=application).select_related("created_by")
    in_force = list(rows.filter(withdrawn_at__isnull=True).order_by("-created_at"))
    withdrawn = rows.filter(withdrawn_at__isnull=False).order_by("-withdrawn_at")
    return [*in_force, *withdrawn[: max(0, OVERRIDES_SHOWN - len(in_force))]]


# ---- the row, cell by cell ----


@dataclass(frozen=True, slots=True)
class CellRow:
    """One formatted cell of the profile, with its override."""

    cell: ProfileCell
    name: str
    value: str
    interval: str
    error: str
    sentence: str
    source: str
    override: Override | None


def cell_rows(
    profiled: ProfiledApplication, cells: Cells, matrix: MatrixName, overrides: Sequence[Override]
) -> list[CellRow]:
    """Return the cells of one matrix, each with the override in force."""
    kind = profiled.application.kind
    platforms = cells[MatrixName.HETEROGENEITY]
    best = platforms[0].column if platforms else ""
    by_hand = {
        row.column: row
        for row in overrides
        if row.withdrawn_at is None and row.matrix == matrix.value
    }
    return [
        CellRow(
            cell=cell,
            name=column_name(matrix, cell.column),
            value=value_text(matrix, cell.column, cell.value, kind),
            interval=interval_text(cell, kind),
            error=error_text(cell, kind),
            sentence=sentence(cell, kind, best),
            source=SOURCE_WORDS[cell.source],
            override=by_hand.get(cell.column) if cell.source is Source.OVERRIDE else None,
        )
        for cell in cells[matrix]
    ]


@dataclass(frozen=True, slots=True)
class MatrixTab:
    """One matrix, with the number of its known cells."""

    key: str
    name: str
    known: int
    cells: int
    current: bool


def matrix_tabs(cells: Cells, current: MatrixName) -> list[MatrixTab]:
    """Return all matrices of a profile with their numbers of known cells."""
    return [
        MatrixTab(
            name.value,
            MATRIX_NAMES[name],
            sum(cell.source is not Source.INFERRED for cell in row),
            len(row),
            name is current,
        )
        for name, row in cells.items()
    ]


# ---- overrides ----


@dataclass(frozen=True, slots=True)
class OverrideRow:
    """An override, in force or withdrawn."""

    override: Override
    title: str


def override_rows(overrides: Sequence[Override], kind: str) -> list[OverrideRow]:
    """Return formatted overrides."""
    rows = []
    for row in overrides:
        matrix = MatrixName(row.matrix)
        value = value_text(matrix, row.column, row.value, kind)
        name = column_name(matrix, row.column)
        rows.append(OverrideRow(row, f"{MATRIX_NAMES[matrix]}, {name}: {value}"))
    return rows


@dataclass(frozen=True, slots=True)
class CellChoice:
    """One cell that can be overridden; ``value`` in the unit of the input field."""

    column: str
    name: str
    now: str
    value: str


@dataclass(frozen=True, slots=True)
class CellGroup:
    """The cells of one matrix; input value × ``factor`` is in the unit of the matrix."""

    key: str
    name: str
    unit: str
    factor: float
    cells: tuple[CellChoice, ...]


def override_choices(cells: Cells, kind: str) -> list[CellGroup]:
    """Return the cells that can be overridden, by matrix."""
    groups = []
    for name, row in cells.items():
        unit, factor = typed_unit(name, kind)
        choices = tuple(
            CellChoice(
                column=cell.column,
                name=column_name(name, cell.column),
                now=value_text(name, cell.column, cell.value, kind),
                value=f"{float(f'{cell.value / factor:.4g}'):.12g}",  # no exponent
            )
            for cell in row
        )
        groups.append(CellGroup(name.value, MATRIX_NAMES[name], unit, factor, choices))
    return groups


# ---- neighbours ----


@dataclass(frozen=True, slots=True)
class SimilarApplication:
    """A known application that is similar."""

    neighbour: Neighbour
    is_live: bool  # has a page of its own

    @property
    def is_named_library(self) -> bool:
        """Whether its name already shows that it belongs to the library."""
        return self.neighbour.name.startswith("library")

    @property
    def words(self) -> str:
        """What the two applications have in common."""
        return shared(self.neighbour)


def similar_applications(profiled: ProfiledApplication) -> list[SimilarApplication]:
    """Return the most similar known applications, most similar first."""
    number = current_number()
    if profiled.profile is None or number is None:
        return []
    neighbours = nearest(
        _space(number, _stamp(number)),
        _values(profiled.cells),
        limit=MAX_NEIGHBOURS,
        leave_out=profiled.application.name,
    )
    names = [neighbour.name for neighbour in neighbours]
    live = set(Application.objects.filter(name__in=names).values_list("name", flat=True))
    return [SimilarApplication(neighbour, neighbour.name in live) for neighbour in neighbours]


def _values(cells: Cells) -> dict[MatrixName, tuple[Sequence[str], Floats]]:
    """Return columns and values of the matrices in which applications are compared."""
    return {
        name: ([cell.column for cell in cells[name]], np.array([c.value for c in cells[name]]))
        for name in COMPARED
    }


def _stamp(number: int) -> Any:
    """Return a cache key that differs for revisions of the same number after a reset."""
    rows = MatrixRevision.objects.filter(revision_id=number)
    return rows.values_list("revision__created_at", flat=True).first()


@lru_cache(maxsize=2)
def _space(number: int, stamp: Any) -> Space:
    """Return the comparison space of applications with at least half of their cells known."""
    stored = {row.matrix: row for row in MatrixRevision.objects.filter(revision_id=number)}
    parts = {name: stored[name.value] for name in COMPARED if name.value in stored}
    if not parts:
        return space_of((), {})
    cells = {name: cells_in(row) for name, row in parts.items()}
    known = np.hstack([~np.isnan(part["value"]) for part in cells.values()])
    kept = np.flatnonzero(2 * known.sum(axis=1) >= known.shape[1])
    rows = next(iter(parts.values())).rows
    return space_of(
        [rows[i] for i in kept],
        {name: (parts[name].columns, part["estimate"][kept]) for name, part in cells.items()},
    )


@dataclass(frozen=True, slots=True)
class ReportRow:
    """An imported report; ``scores`` pairs a source with its score, as text."""

    imported: ImportedReport
    command: str
    machine: str
    scores: tuple[tuple[str, str], ...]


def imported_reports(of: Application) -> list[ReportRow]:
    """Return the imported reports of an application, newest first."""
    rows = ImportedReport.objects.filter(application=of).select_related("created_by")
    return [_report_row(row) for row in rows.order_by("-created_at", "-id")[:MAX_REPORTS]]


def _report_row(row: ImportedReport) -> ReportRow:
    report = row.report
    cells = [cell for cell in report_cells(report) if cell.matrix == MatrixName.TOLERATED]
    machine = report.get("machine")
    return ReportRow(
        imported=row,
        command=shlex.join(report["command"]),
        machine=str(machine.get("processor", "")) if isinstance(machine, dict) else "",
        scores=tuple((SOURCE_NAMES[cell.column], f"{cell.value:.0f}") for cell in cells),
    )
