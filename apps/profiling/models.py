"""Profiling runs and their measurements."""

from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.common.core.ids import uuid7
from apps.operations.models import Operation
from apps.workloads.models import Application


class RunState(models.TextChoices):
    """Life of a profiling run."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


NO_PROJECT: Final = UUID(int=0)
OPEN_STATES = (RunState.QUEUED, RunState.RUNNING)


class ProfilingRun(models.Model):
    """A few short runs of one application next to microbenchmarks (Quasar §4.2, Q8)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    application = models.ForeignKey(
        Application, on_delete=models.CASCADE, related_name="profiling_runs"
    )
    # progress and cancellation; null for runs from before operations existed
    operation = models.OneToOneField(
        Operation, null=True, on_delete=models.SET_NULL, related_name="profiling_run"
    )
    project_id = models.UUIDField(
        default=NO_PROJECT, help_text="whose job waits for it; zero if none waited"
    )
    state = models.CharField(max_length=9, choices=RunState.choices, default=RunState.QUEUED)
    reason = models.CharField(max_length=200, blank=True)
    plan = models.JSONField(help_text="what to run: see profiling.core.plan")
    seed = models.BigIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    requested_s = models.FloatField()
    started_s = models.FloatField(null=True)
    finished_s = models.FloatField(null=True)
    claimed_by = models.CharField(max_length=63, blank=True)
    claimed_until = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    is_awaited = models.BooleanField(
        default=True,
        db_default=True,
        help_text="whether jobs of the application wait until it has ended",
    )
    paused_until = models.DateTimeField(
        null=True,
        help_text="of a command, cancelled by a user: no job requests another run before",
    )
    message = models.CharField(max_length=500, blank=True)
    result = models.JSONField(null=True, help_text="cells, seconds, and what is missing and why")

    class Meta:
        constraints = (
            # jobs of one unknown application share one run
            models.UniqueConstraint(
                fields=["application"],
                name="one_open_profiling_run",
                condition=Q(state__in=["queued", "running"]),
            ),
        )
        indexes = (
            # backends: the next run of each project, and expired leases
            models.Index(
                fields=["project_id", "created_at", "id"],
                name="profiling_run_by_turn",
                condition=Q(state__in=["queued", "running"]),
            ),
            # lists: newest first, of all runs or of a state
            models.Index(fields=["-created_at", "-id"], name="profiling_run_by_age"),
            models.Index(fields=["state", "-created_at", "-id"], name="profiling_run_by_state"),
            models.Index(
                fields=["application", "-created_at", "-id"], name="profiling_run_by_app"
            ),
        )

    def __str__(self) -> str:
        return f"{self.application_id} {self.state}"


class MeasuredMatrix(models.TextChoices):
    """Utility matrix of a measurement (Paragon P1, Quasar Q2)."""

    BASE_RATE = "base_rate", "rate of one unit on the highest-end platform"
    HETEROGENEITY = "heterogeneity"
    SCALE_UP = "scale_up"
    SCALE_OUT = "scale_out"
    FRAMEWORK = "framework"
    TOLERATED = "tolerated"
    CAUSED = "caused"


class Measurement(models.Model):
    """One measured cell of one matrix."""

    application = models.ForeignKey(
        Application, on_delete=models.CASCADE, related_name="measurements"
    )
    run = models.ForeignKey(
        ProfilingRun, on_delete=models.CASCADE, null=True, related_name="measurements"
    )
    matrix = models.CharField(max_length=16, choices=MeasuredMatrix.choices)
    column = models.CharField(max_length=63)
    value = models.FloatField()
    standard_error = models.FloatField()
    samples = models.PositiveIntegerField(default=1)
    cluster_s = models.FloatField()
    source = models.CharField(max_length=16, default="profiling")

    class Meta:
        indexes = (
            # classification: all cells of an application, newest last
            models.Index(fields=["application", "matrix", "id"], name="measurement_by_row"),
        )

    def __str__(self) -> str:
        return f"{self.matrix}[{self.column}] = {self.value:.4g}"


class ReportKey(models.Model):
    """A key that signs reports of `berth profile`, trusted by an administrator.

    HMAC uses one key to sign and to verify, so anyone who can read this table can sign reports.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=63, unique=True)
    secret = models.BinaryField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class ImportedReport(models.Model):
    """A report of `berth profile` from another machine; its cells are measurements."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    application = models.ForeignKey(
        Application, on_delete=models.CASCADE, related_name="imported_reports"
    )
    digest = models.CharField(max_length=71, unique=True, help_text="id of the report")
    key_name = models.CharField(max_length=63, help_text="of the key that signed it")
    report = models.JSONField()
    cells = models.PositiveIntegerField(help_text="measurements that it gave")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (
            # lists, newest first
            models.Index(fields=["-created_at", "-id"], name="imported_report_by_age"),
        )

    def __str__(self) -> str:
        return self.digest


class Ranking(models.Model):
    """The single row that ranks columns by how informative they are about a new application.

    Classification computes it, as it depends on which columns can be inferred from others.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    order = models.JSONField(help_text="columns of each matrix, the most informative first")
    set_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(id=1), name="one_ranking"),)

    def __str__(self) -> str:
        return ", ".join(f"{matrix}: {columns[0]}" for matrix, columns in self.order.items())
