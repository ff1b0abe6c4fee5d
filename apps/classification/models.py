"""Utility matrices and their revisions, profiles, overrides and feedback."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.common.core.ids import uuid7
from apps.operations.models import Operation
from apps.profiling.models import MeasuredMatrix
from apps.workloads.models import Application, Job


class RevisionReason(models.TextChoices):
    """Why a revision was created."""

    LIBRARY = "library", "a library was profiled or loaded"
    ROWS = "rows", "enough applications were measured since the last one"
    SCHEDULE = "schedule", "the maximum time has passed"
    REQUEST = "request", "requested by a user"


class Revision(models.Model):
    """One immutable version of all utility matrices, the base of every fold-in."""

    number = models.PositiveIntegerField(primary_key=True)
    reason = models.CharField(max_length=8, choices=RevisionReason.choices)
    estimator = models.CharField(max_length=31)
    is_current = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    cluster_s = models.FloatField(default=0.0)
    seconds = models.FloatField(default=0.0, help_text="wall seconds of the fit")
    last_measurement = models.BigIntegerField(
        default=0, help_text="id of the newest measurement used"
    )
    operation = models.ForeignKey(
        Operation, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["is_current"], name="one_revision_in_force", condition=Q(is_current=True)
            ),
        )

    def __str__(self) -> str:
        return f"r{self.number}"


class MatrixRevision(models.Model):
    """One utility matrix at one revision: every cell, measured or inferred."""

    revision = models.ForeignKey(Revision, on_delete=models.CASCADE, related_name="matrices")
    matrix = models.CharField(max_length=16, choices=MeasuredMatrix.choices)
    rows = ArrayField(models.CharField(max_length=127), help_text="application names")
    library_rows = models.PositiveIntegerField(
        help_text="number of leading rows that belong to the library"
    )
    columns = ArrayField(models.CharField(max_length=63))
    cells = models.BinaryField(help_text="core.cells.CELL, C order, (rows, columns)")
    singular_values = ArrayField(models.FloatField(), default=list)
    evaluation = models.JSONField(
        default=dict, help_text="errors and coverage on held-out applications"
    )

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["revision", "matrix"], name="matrix_once_a_revision"),
        )

    def __str__(self) -> str:
        return f"{self.matrix} r{self.revision_id}"


class Profile(models.Model):
    """One version of the estimates of an application; an update adds a row."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    application = models.ForeignKey(Application, on_delete=models.CASCADE, related_name="profiles")
    number = models.PositiveIntegerField()
    revision = models.PositiveIntegerField(help_text="number of the revision used")
    estimator = models.CharField(max_length=31)
    is_current = models.BooleanField(default=True)
    cells = models.JSONField(
        help_text="per matrix: columns, value, low, high, source, ...; see selectors.cells_of"
    )
    flags = ArrayField(
        models.CharField(max_length=31), default=list, help_text="why estimates are degraded"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["application", "number"], name="profile_number_once"),
            models.UniqueConstraint(
                fields=["application"],
                name="one_current_profile",
                condition=Q(is_current=True),
            ),
        )

    def __str__(self) -> str:
        return f"{self.application_id} p{self.number}"


class PendingFold(models.Model):
    """An application whose profile is to be updated; deleted in the transaction of the update."""

    application = models.OneToOneField(
        Application, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    requested_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return str(self.application_id)


class Override(models.Model):
    """A cell set by hand; it replaces measurements until it is withdrawn."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    application = models.ForeignKey(
        Application, on_delete=models.CASCADE, related_name="overrides"
    )
    matrix = models.CharField(max_length=16, choices=MeasuredMatrix.choices)
    column = models.CharField(max_length=63)
    value = models.FloatField()
    cluster_s = models.FloatField()
    reason = models.CharField(max_length=500)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["application", "matrix", "column"],
                name="one_override_in_force",
                condition=Q(withdrawn_at__isnull=True),
            ),
        )

    def __str__(self) -> str:
        return f"{self.matrix}[{self.column}] = {self.value:.4g}"


class PredictionError(models.Model):
    """Predicted and measured work per second of one job (Quasar Q5)."""

    application = models.ForeignKey(
        Application, on_delete=models.CASCADE, related_name="prediction_errors"
    )
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="prediction_errors")
    profile = models.ForeignKey(Profile, on_delete=models.CASCADE, related_name="+")
    number = models.PositiveIntegerField(help_text="counts the observations of one job")
    cluster_s = models.FloatField()
    predicted = models.FloatField()
    measured = models.FloatField()
    deviation = models.FloatField(help_text="expected of log(measured / predicted)")
    beyond = models.FloatField(
        default=0.0, help_text="pressure above the tolerated score at placement, in points"
    )

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["job", "number"], name="prediction_error_once"),
        )
        indexes = (
            # the chart of an application, and its drift
            models.Index(fields=["application", "cluster_s"], name="prediction_error_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.job_id} {self.measured:.4g} for {self.predicted:.4g}"


class Drift(models.Model):
    """Drift of the predictions of one application: a two-sided cumulative sum."""

    application = models.OneToOneField(
        Application, on_delete=models.CASCADE, primary_key=True, related_name="drift"
    )
    observations = models.PositiveIntegerField(default=0)
    faster = models.FloatField(default=0.0, help_text="cumulated sum of runs that went faster")
    slower = models.FloatField(default=0.0, help_text="cumulated sum of runs that went slower")
    mean_error = models.FloatField(default=0.0, help_text="moving mean of log(measured/predicted)")
    flagged_s = models.FloatField(
        null=True, help_text="cluster seconds since which predictions are wrong"
    )
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.application_id} {self.mean_error:+.2f}"
