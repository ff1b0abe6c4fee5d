"""Launches, migrations and what running jobs report."""

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


class MigrationState(models.TextChoices):
    """Life of one migration; what is requested or running is open."""

    REQUESTED = "requested"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


_OPEN = Q(state__in=["requested", "running"])


class Migration(models.Model):
    """Units of a running job on their way from one server to another; at most one of a job.

    The units of both servers are held from the request to the end: ``source_allocation_id`` and
    ``target_allocation_id`` name rows of ``scheduling.Allocation``, of which one is then given
    back.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="migrations")
    launch = models.ForeignKey(Launch, on_delete=models.CASCADE, related_name="migrations")
    source_allocation_id = models.BigIntegerField()
    target_allocation_id = models.BigIntegerField(unique=True)
    from_server_id = models.BigIntegerField()
    to_server_id = models.BigIntegerField()
    units = models.PositiveIntegerField()
    predicted_s = models.FloatField(help_text="cluster seconds it should take")
    state = models.CharField(
        max_length=9, choices=MigrationState.choices, default=MigrationState.REQUESTED
    )
    cancel_requested = models.BooleanField(default=False)
    claimed_by = models.CharField(max_length=63, blank=True)
    claimed_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    requested_s = models.FloatField()
    started_s = models.FloatField(null=True)
    ended_s = models.FloatField(null=True)
    reason_code = models.CharField(max_length=40, help_text="why it was asked for")
    message = models.CharField(max_length=500, blank=True, help_text="why it was not done")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["job"], name="one_open_migration", condition=_OPEN),
        )
        indexes = (
            # what to begin, what goes on, and what outlived its launch
            models.Index(fields=["id"], name="migration_open", condition=_OPEN),
            # the migrations of a job, newest first
            models.Index(fields=["job", "-id"], name="migration_by_job"),
        )

    def __str__(self) -> str:
        return f"{self.job_id} {self.from_server_id} to {self.to_server_id} {self.state}"


class JobSample(models.Model):
    """One report of a running job; what its monitors cannot tell is null."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="samples")
    cluster_s = models.FloatField()
    progress = models.FloatField()
    performance = models.FloatField()
    attainment = models.FloatField(null=True)
    cpu_share = models.FloatField(help_text="of the cores it holds, 0-1")
    memory_rate = models.FloatField(null=True, help_text="off-chip requests/s and unit")
    network_wait = models.FloatField(
        null=True, help_text="share of time spent waiting for packets, of a server full of it, 0-1"
    )
    disk_wait = models.FloatField(
        null=True, help_text="share of time spent waiting for the disk, likewise"
    )
    traffic_bps = models.FloatField(null=True, help_text="bits/s and unit within the job")

    class Meta:
        indexes = (
            # the performance chart of one job
            models.Index(fields=["job", "cluster_s"], name="sample_by_job"),
        )

    def __str__(self) -> str:
        return f"{self.job_id} at {self.cluster_s:.0f} s"
