"""Applications, jobs and what they must achieve."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.common.core.ids import uuid7
from apps.workloads.core.lifecycle import TERMINAL_STATES, JobState


class ApplicationKind(models.TextChoices):
    """What performance means for an application (Paragon §2.2 P4, Quasar §3.1 Q1)."""

    ANALYTICS = "analytics", "distributed analytics: completion time"
    LATENCY_CRITICAL = "latency_critical", "service: queries per second within a latency bound"
    SINGLE_NODE = "single_node", "single node: instructions per second"
    BATCH = "batch", "batch: completion time on one server"


class Application(models.Model):
    """What is run, remembered across runs: jobs of one application share one profile."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=127, unique=True)
    kind = models.CharField(max_length=20, choices=ApplicationKind.choices)
    description = models.CharField(max_length=500, blank=True)
    labels = models.JSONField(default=dict, blank=True)
    generation = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name


class Batch(models.Model):
    """Jobs submitted together in one request; ``items`` keeps what became of each, in order."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="batches")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)
    mode = models.CharField(max_length=12, default="independent")
    total = models.PositiveIntegerField()
    accepted = models.PositiveIntegerField()
    items = models.JSONField(default=list)

    def __str__(self) -> str:
        return str(self.id)


class Job(models.Model):
    """One submission: what must be achieved, and how far it is.

    ``*_s`` columns are cluster seconds, ``*_at`` columns wall time.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=127)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="jobs")
    application = models.ForeignKey(Application, on_delete=models.PROTECT, related_name="jobs")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    batch = models.ForeignKey(Batch, on_delete=models.SET_NULL, null=True, related_name="jobs")
    correlation_id = models.CharField(max_length=64)

    # what is wanted
    target = models.JSONField()
    target_kind = models.CharField(max_length=20)
    input_bytes = models.BigIntegerField(default=0)
    tasks_total = models.PositiveIntegerField(default=1)
    duration_s = models.FloatField(null=True)
    units_requested = models.PositiveIntegerField(null=True)
    unit_memory_bytes = models.BigIntegerField(default=0)
    unit_network_bps = models.BigIntegerField(default=0)
    unit_storage_bytes = models.BigIntegerField(default=0)
    priority = models.SmallIntegerField(default=0)
    gang = models.BooleanField(default=True)
    constraints = models.JSONField(default=dict)
    labels = models.JSONField(default=dict)
    annotations = models.JSONField(default=dict)
    generation = models.PositiveIntegerField(default=1)

    # how far it is
    state = models.CharField(max_length=10, default=JobState.SUBMITTED)
    held = models.BooleanField(default=False)
    reason_code = models.CharField(max_length=40, blank=True)
    reason_message = models.CharField(max_length=500, blank=True)
    reason_also = models.JSONField(default=list)
    units = models.PositiveIntegerField(null=True, help_text="size decided for it")
    attempts = models.PositiveIntegerField(default=0, help_text="times it was launched")
    tries = models.PositiveIntegerField(default=0, help_text="decisions since it was queued")
    progress = models.FloatField(default=0.0, help_text="share of the work done, 0-1")
    performance = models.FloatField(null=True, help_text="last measured, in the target's unit")
    attainment = models.FloatField(null=True, help_text="performance over target; 1 or more = met")
    predicted = models.JSONField(default=dict, help_text="value, low, high, in the target's unit")
    cancel_requested = models.BooleanField(default=False)

    # when
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    submitted_s = models.FloatField()
    profiled_s = models.FloatField(null=True)
    queued_s = models.FloatField(null=True)
    placed_s = models.FloatField(null=True)
    started_s = models.FloatField(null=True)
    finished_s = models.FloatField(null=True)
    placed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    # whose turn it is
    claimed_by = models.CharField(max_length=63, blank=True)
    claimed_until = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in sorted(JobState)]),
                name="job_state_known",
            ),
            models.CheckConstraint(
                condition=Q(progress__gte=0, progress__lte=1), name="job_progress_is_share"
            ),
            models.CheckConstraint(
                condition=~Q(state__in=[state.value for state in sorted(TERMINAL_STATES)])
                | Q(finished_s__isnull=False),
                name="job_terminal_has_end",
            ),
        )
        indexes = (
            # agents: the next jobs to decide, most urgent first
            models.Index(
                fields=["-priority", "created_at"],
                name="job_to_decide",
                condition=Q(state__in=["submitted", "queued"], held=False),
            ),
            # lists: newest first, by project, state or application (keyset on created_at, id)
            models.Index(fields=["-created_at", "-id"], name="job_by_age"),
            models.Index(fields=["state", "-created_at", "-id"], name="job_by_state"),
            models.Index(fields=["project", "-created_at", "-id"], name="job_by_project"),
            models.Index(fields=["application", "-created_at", "-id"], name="job_by_application"),
            # feedback: jobs that ended lately
            models.Index(
                fields=["finished_at"], name="job_succeeded", condition=Q(state="succeeded")
            ),
        )

    def __str__(self) -> str:
        return self.name
