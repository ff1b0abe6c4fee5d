"""Jobs: what was submitted, and their status."""

from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Func, Q

from apps.accounts.models import Project
from apps.common.core.ids import uuid7
from apps.common.infrastructure.database import DatabaseClock
from apps.workloads.core.lifecycle import TERMINAL_STATES, JobState, Suspension
from apps.workloads.models.applications import Application
from apps.workloads.models.batches import Archive, Batch
from apps.workloads.models.shapes import WaitingShape

OPEN_STATES: Final = tuple(state.value for state in JobState if state not in TERMINAL_STATES)

# The jobs that no agent has refused yet. CASE hides the condition from the planner's statistics,
# which do not know how many jobs wait at the moment: they often say none, and one index then seems
# as good as any other. The planner now assumes half of the table, and takes the index that fits.
_NEW: Final = (
    "CASE WHEN {job}state IN ('submitted', 'queued') AND NOT {job}held"
    " AND {job}shape_id IS NULL THEN %s ELSE false END"
)
NEW_JOB: Final = _NEW % "true"
# The same jobs in other words. If a project has one flow only, the planner would otherwise read
# all its new jobs to find those of a flow.
NEW_JOB_OF_FLOW: Final = _NEW % "{job}flow_key IS NOT NULL"


def _only(condition: str) -> Q:
    return Q(Func(template=condition.format(job=""), output_field=models.BooleanField()))


class Job(models.Model):
    """One job: its specification and its status.

    ``*_s`` columns are cluster seconds, ``*_at`` columns wall time.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=127)
    # without indexes of their own: job_by_project and job_by_application begin with them
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="jobs", db_index=False
    )
    application = models.ForeignKey(
        Application, on_delete=models.PROTECT, related_name="jobs", db_index=False
    )
    # without an index: users are deactivated, never deleted, and no list selects jobs by user
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, db_index=False
    )
    batch = models.ForeignKey(Batch, on_delete=models.SET_NULL, null=True, related_name="jobs")
    array_index = models.PositiveIntegerField(
        null=True, help_text="in the array that its batch is; null: no member of an array"
    )
    correlation_id = models.CharField(max_length=64)

    # specification
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
    policy = models.CharField(
        max_length=63,
        blank=True,
        default="",
        db_default="",
        help_text="named by the job; empty: the default",
    )
    sample_size = models.PositiveIntegerField(null=True, help_text="R, named by the job")
    guarantee = models.JSONField(null=True, help_text="rank threshold x and probability p")
    constraints = models.JSONField(default=dict)
    labels = models.JSONField(default=dict)
    annotations = models.JSONField(default=dict)
    backend = models.CharField(
        max_length=31, blank=True, default="", db_default="",
        help_text="that it was submitted to, and that runs it; empty: any that can",
    )  # fmt: skip
    program = models.JSONField(
        null=True, help_text="command, environment and working directory; null: emulated"
    )
    # without an index of its own: job_with_files
    files = models.ForeignKey(
        Archive, on_delete=models.PROTECT, null=True, related_name="jobs", db_index=False
    )
    generation = models.PositiveIntegerField(default=1)

    # status
    state = models.CharField(max_length=10, default=JobState.SUBMITTED)
    held = models.BooleanField(default=False)
    reason_code = models.CharField(max_length=40, blank=True)
    reason_message = models.CharField(max_length=500, blank=True)
    reason_also = models.JSONField(default=list)
    units = models.PositiveIntegerField(null=True, help_text="size decided for it")
    units_missing = models.PositiveIntegerField(
        default=0, db_default=0, help_text="that it was not given yet; 0 for gangs"
    )
    units_pending = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="given to it while it runs, and not yet used by its backend",
    )
    run_s = models.FloatField(
        null=True, help_text="predicted run time of its launch, cluster seconds"
    )
    run_high_s = models.FloatField(null=True, help_text="pessimistic end of its interval")
    grown_s = models.FloatField(null=True, help_text="cluster seconds; when units were added last")
    attempts = models.PositiveIntegerField(default=0, help_text="times it was launched")
    tries = models.PositiveIntegerField(default=0, help_text="decisions since it was queued")
    progress = models.FloatField(default=0.0, help_text="share of the work done, 0-1")
    progress_before = models.FloatField(
        default=0.0, db_default=0.0,
        help_text="share of the work done by earlier launches; above 0 if it was resumed",
    )  # fmt: skip
    reported_s = models.FloatField(
        null=True, help_text="cluster seconds; when its backend reported its progress last"
    )
    performance = models.FloatField(null=True, help_text="last measured, in the target's unit")
    attainment = models.FloatField(null=True, help_text="performance over target; 1 or more = met")
    predicted = models.JSONField(default=dict, help_text="value, low, high, in the target's unit")
    cancel_requested = models.BooleanField(default=False)
    exit_code = models.IntegerField(null=True, help_text="of its command; below 0: the signal")
    suspension = models.CharField(
        max_length=9, blank=True, default="", db_default="",
        help_text="of a running job; empty: none",
    )  # fmt: skip
    suspended_s = models.FloatField(
        null=True, help_text="cluster seconds; when its processes were stopped; null: they run"
    )
    suspended_for_s = models.FloatField(
        default=0.0, db_default=0.0,
        help_text="cluster seconds that its launch was suspended before",
    )  # fmt: skip

    # times
    created_at = models.DateTimeField(db_default=DatabaseClock())
    updated_at = models.DateTimeField(auto_now=True)
    submitted_s = models.FloatField()
    profiled_s = models.FloatField(null=True)
    queued_s = models.FloatField(null=True)
    placed_s = models.FloatField(null=True)
    started_s = models.FloatField(null=True)
    finished_s = models.FloatField(null=True)
    placed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    # claim of an agent
    claimed_by = models.CharField(max_length=63, blank=True)
    claimed_until = models.DateTimeField(null=True)

    # Keys of the request, which a trigger sets (migration 0021): PostgreSQL 18 reads the text of
    # a generated column's expression again for each row of an UPDATE, whatever it changes.
    # The jobs of one shape share all that a decision depends on, except age and the cluster.
    shape_key = models.UUIDField(editable=False, db_default=UUID(int=0))
    # The jobs of one flow share the request apart from its size, priority and target, and mostly
    # wait for the same servers; agents take turns over it and its user.
    flow_key = models.UUIDField(editable=False, db_default=UUID(int=0))
    # while agents evaluate it through its shape
    shape = models.ForeignKey(
        WaitingShape, on_delete=models.PROTECT, null=True, related_name="jobs", db_index=False
    )

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(shape__isnull=True) | Q(state=JobState.QUEUED.value, held=False),
                name="job_of_shape_is_queued",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in sorted(JobState)]),
                name="job_state_known",
            ),
            models.CheckConstraint(
                condition=Q(suspension__in=[each.value for each in Suspension])
                & (Q(suspension="", suspended_s__isnull=True) | Q(state=JobState.RUNNING.value)),
                name="job_suspended_runs",
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
            # agents: the jobs that no agent has refused yet, by project, most urgent first
            models.Index(
                fields=["project", "-priority", "created_at", "id"],
                name="job_to_evaluate",
                condition=_only(NEW_JOB),
            ),
            # agents: the same, by user and flow
            models.Index(
                fields=["project", "created_by", "flow_key", "-priority", "created_at", "id"],
                name="job_by_flow",
                condition=_only(NEW_JOB_OF_FLOW),
            ),
            # agents: the same, newest first
            models.Index(
                fields=["project", "-created_at", "-id"],
                name="job_to_evaluate_by_age",
                condition=_only(NEW_JOB),
            ),
            # agents: the oldest jobs of a shape
            models.Index(
                fields=["shape", "created_at", "id"],
                name="job_by_shape",
                condition=Q(shape__isnull=False),
            ),
            # agents: running jobs that lack units, oldest first
            models.Index(
                fields=["placed_at", "id"],
                name="job_incomplete",
                condition=Q(state__in=["starting", "running"], units_missing__gt=0),
            ),
            # backends: running jobs that were given units
            models.Index(
                fields=["id"],
                name="job_grown",
                condition=Q(state="running", units_pending__gt=0),
            ),
            # arrays: members that are open, and those of them that wait for others; other jobs
            # are not in it
            models.Index(
                fields=["batch", "held", "array_index"],
                name="job_open_member",
                condition=Q(array_index__isnull=False, state__in=OPEN_STATES),
            ),
            # lists: newest first, by project, state or application (keyset on created_at, id)
            models.Index(fields=["-created_at", "-id"], name="job_by_age"),
            models.Index(fields=["state", "-created_at", "-id"], name="job_by_state"),
            models.Index(fields=["project", "-created_at", "-id"], name="job_by_project"),
            models.Index(fields=["application", "-created_at", "-id"], name="job_by_application"),
            # lists by a value that few jobs may have: without an index, a search for it would
            # read the whole history
            models.Index(fields=["target_kind", "-created_at", "-id"], name="job_by_target"),
            models.Index(fields=["reason_code", "-created_at", "-id"], name="job_by_reason"),
            models.Index(fields=["priority", "-created_at", "-id"], name="job_by_priority"),
            models.Index(fields=["-created_at", "-id"], name="job_held", condition=Q(held=True)),
            # lists by attainment; running jobs change theirs too often for an index
            models.Index(
                fields=["attainment"],
                name="job_by_attainment",
                condition=Q(finished_at__isnull=False),
            ),
            # retention: whether a job has an archive; submission: whether one of the project has
            models.Index(
                fields=["files", "project"],
                name="job_with_files",
                condition=Q(files__isnull=False),
            ),
            # feedback, retention: jobs by their end
            models.Index(
                fields=["finished_at"], name="job_by_end", condition=Q(finished_at__isnull=False)
            ),
        )

    def __str__(self) -> str:
        return self.name
