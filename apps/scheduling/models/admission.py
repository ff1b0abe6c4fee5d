"""The state of admission, estimates of starts, and speeds and allowances that sizing uses."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.common.infrastructure.database import DatabaseClock


class AdmissionState(models.Model):
    """The buckets, or classes, of an admission control, as of one moment."""

    control = models.CharField(max_length=24, unique=True)
    agent = models.CharField(max_length=63, help_text="that stored it")
    at = models.DateTimeField(db_default=DatabaseClock())
    cluster_s = models.FloatField()
    queues = models.JSONField(default=list, help_text="`QueueState` of each")
    memory = models.BinaryField(
        default=b"",
        db_default=b"",
        help_text="history of the control, from which dry runs continue: JSON, by zlib",
    )

    def __str__(self) -> str:
        return f"{self.control} at {self.cluster_s:.0f}"


class StartEstimate(models.Model):
    """When a waiting job was predicted to start, as of one moment; in cluster seconds.

    The newest open row of a job is its current estimate, and its ``ahead`` is updated. A row is
    added when the quantiles change, or when a job waits again whose rows were closed; ``placed_s``
    is what happened. Null quantiles: later than the simulation reaches.
    """

    job_id = models.UUIDField()
    kind = models.CharField(max_length=40, help_text="class in which estimates are scored")
    at = models.DateTimeField(db_default=DatabaseClock())
    made_s = models.FloatField()
    ahead = models.PositiveIntegerField(help_text="jobs that agents try before it")
    p5_s = models.FloatField(null=True)
    p50_s = models.FloatField(null=True)
    p90_s = models.FloatField(null=True)
    p95_s = models.FloatField(null=True)
    simulated_s = ArrayField(
        models.FloatField(),
        null=True,
        help_text="the same quantiles before their correction, in seconds after made_s",
    )
    placed_s = models.FloatField(null=True, help_text="when it was given its units")
    is_open = models.BooleanField(default=True, db_default=True, help_text="the job still waits")

    class Meta:
        indexes = (
            # the estimates of a job, newest first
            models.Index(fields=["job_id", "-id"], name="start_estimate_by_job"),
            # scoring: estimates of jobs that waited
            models.Index(fields=["job_id"], name="start_estimate_open", condition=Q(is_open=True)),
            # scores of the last day
            models.Index(
                fields=["placed_s"],
                name="start_estimate_scored",
                condition=Q(placed_s__isnull=False),
            ),
            # retention
            models.Index(fields=["at"], name="start_estimate_by_age"),
        )

    def __str__(self) -> str:
        return f"{self.job_id} at {self.made_s:.0f}"


class SpeedRatio(models.Model):
    """Measured speed of a job over the pessimistic end of its prediction, without an allowance.

    The newest jobs of each kind of target; sizing allowances follow from them.
    """

    job_id = models.UUIDField(unique=True)
    kind = models.CharField(max_length=24)
    ratio = models.FloatField()
    cluster_s = models.FloatField(help_text="of the last observation")

    class Meta:
        indexes = (
            # the newest of a kind
            models.Index(fields=["kind", "-cluster_s"], name="speed_ratio_by_kind"),
        )

    def __str__(self) -> str:
        return f"{self.job_id} {self.ratio:.3g}"


class SizingAllowance(models.Model):
    """Share of the predicted speed that sizing counts on for a kind of target, as of one moment.

    The newest row of a kind is in force; a row is added when the estimate changes.
    """

    kind = models.CharField(max_length=24)
    value = models.FloatField()
    quantile = models.FloatField(help_text="5 % quantile of the ratios, before shrinkage")
    jobs = models.PositiveIntegerField(help_text="that it follows from")
    cluster_s = models.FloatField()
    at = models.DateTimeField(db_default=DatabaseClock())

    class Meta:
        indexes = (
            # the newest of a kind, and its history
            models.Index(fields=["kind", "-id"], name="sizing_allowance_by_kind"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.value:.3f}"
