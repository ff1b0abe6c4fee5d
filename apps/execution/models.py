"""Launches and what running jobs report."""

from django.db import models
from django.db.models import Q

from apps.workloads.models import Job


class LaunchState(models.TextChoices):
    """Life of one launch at its backend."""

    REQUESTED = "requested"
    RUNNING = "running"
    ENDED = "ended"


class Launch(models.Model):
    """One start of one job by one backend; at most one live launch per job."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="launches")
    attempt = models.PositiveIntegerField()
    backend = models.CharField(max_length=31)
    state = models.CharField(
        max_length=9, choices=LaunchState.choices, default=LaunchState.REQUESTED
    )
    order = models.JSONField(help_text="parts (server, units) and what the backend must know")
    cancel_requested = models.BooleanField(default=False)
    claimed_by = models.CharField(max_length=63, blank=True)
    claimed_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_s = models.FloatField(null=True)
    ended_s = models.FloatField(null=True)
    outcome = models.CharField(max_length=10, blank=True)
    message = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["job", "attempt"], name="launch_attempt_once"),
            models.UniqueConstraint(
                fields=["job"],
                name="one_live_launch",
                condition=Q(state__in=["requested", "running"]),
            ),
        )
        indexes = (
            # backends: what to start next, in order
            models.Index(
                fields=["backend", "id"],
                name="launch_requested",
                condition=Q(state="requested"),
            ),
            # backends after a restart, and cancellations
            models.Index(
                fields=["backend", "state", "id"],
                name="launch_live",
                condition=Q(state__in=["requested", "running"]),
            ),
        )

    def __str__(self) -> str:
        return f"{self.job_id} #{self.attempt} {self.state}"


class JobSample(models.Model):
    """One report of a running job."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="samples")
    cluster_s = models.FloatField()
    progress = models.FloatField()
    performance = models.FloatField()
    attainment = models.FloatField(null=True)
    cpu_share = models.FloatField(help_text="of the cores it holds, 0-1")

    class Meta:
        indexes = (
            # the performance chart of one job
            models.Index(fields=["job", "cluster_s"], name="sample_by_job"),
        )

    def __str__(self) -> str:
        return f"{self.job_id} at {self.cluster_s:.0f} s"
