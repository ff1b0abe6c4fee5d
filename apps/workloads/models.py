"""Applications, batches and jobs."""

from typing import Final
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex, HashIndex
from django.db import models
from django.db.models import Func, Q

from apps.accounts.models import Project
from apps.common.core.ids import uuid7
from apps.common.infrastructure.database import DatabaseClock
from apps.workloads.core.lifecycle import TERMINAL_STATES, JobState, Suspension
from apps.workloads.core.shapes import WaitsFor
from apps.workloads.infrastructure.name_search import Words


class ApplicationKind(models.TextChoices):
    """Kind of an application: its performance measure (Paragon §2.2 P4, Quasar §3.1 Q1)."""

    ANALYTICS = "analytics", "distributed analytics: completion time"
    LATENCY_CRITICAL = "latency_critical", "service: queries per second within a latency bound"
    SINGLE_NODE = "single_node", "single node: instructions per second"
    BATCH = "batch", "batch: completion time on one server"


class Application(models.Model):
    """A program that jobs run; all jobs of one application share its profile."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=127, unique=True)
    kind = models.CharField(max_length=20, choices=ApplicationKind.choices)
    description = models.CharField(max_length=500, blank=True)
    labels = models.JSONField(default=dict, blank=True)
    runs_commands = models.BooleanField(
        default=False, db_default=False, help_text="its jobs have a command"
    )
    generation = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name


class BatchMode(models.TextChoices):
    """How the jobs of a request belong together."""

    INDEPENDENT = "independent", "each is accepted or rejected for itself"
    ATOMIC = "atomic", "all are accepted, or none"
    ARRAY = "array", "members of a job array: one specification, an index each"


class Batch(models.Model):
    """Jobs submitted in one request; ``items`` stores the outcome of each item, in order.

    A job array is a batch of mode ``array``; its members have an index (`Job.array_index`).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="batches")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)
    mode = models.CharField(max_length=12, default="independent")
    total = models.PositiveIntegerField()
    accepted = models.PositiveIntegerField()
    items = models.JSONField(default=list)
    name = models.CharField(
        max_length=127, blank=True, default="", db_default="", help_text="of an array"
    )
    array_indexes = models.CharField(
        max_length=500, blank=True, default="", db_default="", help_text="as submitted: 0-99:2"
    )
    array_limit = models.PositiveIntegerField(
        null=True, help_text="members of an array that may wait or run at once; null: all"
    )

    class Meta:
        indexes = (
            # lists, newest first; retention
            models.Index(fields=["-created_at", "-id"], name="batch_by_age"),
            models.Index(fields=["project", "-created_at", "-id"], name="batch_by_project"),
            models.Index(fields=["mode", "-created_at", "-id"], name="batch_by_mode"),
        )

    def __str__(self) -> str:
        return str(self.id)


class WaitingShape(models.Model):
    """A request shape that could not be placed; it exists while jobs of that shape wait.

    Agents evaluate its oldest jobs only. ``waits_for`` to ``unit_storage_bytes`` say which freed
    capacity lets them evaluate it again (`core.shapes.Needs`); after ``due_at`` they do so anyway.
    """

    key = models.UUIDField(unique=True, help_text="`Job.shape_key` of its jobs")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    priority = models.SmallIntegerField()
    reason_code = models.CharField(max_length=40)
    reason_message = models.CharField(max_length=500, blank=True)
    reason_also = models.JSONField(default=list)
    is_reason_copied = models.BooleanField(default=True, help_text="all its jobs show its reason")
    decision_id = models.UUIDField(null=True, help_text="the decision that gave the reason")
    evaluated_seq = models.BigIntegerField(help_text="change-log number of its last evaluation")
    evaluated_at = models.DateTimeField()
    due_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True, help_text="an agent evaluates it until then")
    allowance = models.PositiveIntegerField(default=1, help_text="jobs to evaluate next")
    units = models.PositiveIntegerField(default=1, db_default=1, help_text="size of its jobs")
    run_s = models.FloatField(null=True, help_text="predicted run time of its jobs")
    run_high_s = models.FloatField(null=True, help_text="pessimistic end of its interval")

    waits_for = models.CharField(max_length=10, choices=[(w.value, w.value) for w in WaitsFor])
    min_units = models.PositiveIntegerField()
    on_one_server = models.BooleanField()
    platforms = models.JSONField(null=True)
    labels = models.JSONField()
    unit_memory_bytes = models.BigIntegerField()
    unit_network_bps = models.BigIntegerField()
    unit_storage_bytes = models.BigIntegerField()

    class Meta:
        indexes = (
            # agents: shapes that freed capacity may let start, most urgent first
            models.Index(fields=["project", "-priority", "evaluated_at"], name="shape_by_project"),
            # agents: shapes to evaluate again
            models.Index(fields=["due_at"], name="shape_by_due"),
            # agents: shapes whose jobs show an older reason
            models.Index(
                fields=["id"], name="shape_reason_is_new", condition=Q(is_reason_copied=False)
            ),
        )

    def __str__(self) -> str:
        return str(self.key)


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


class JobCount(models.Model):
    """Number of jobs of one project and application in one state, up to the last fold.

    Triggers on the table of jobs append to `JobCountChange` in the transaction that changes a
    job; a task folds the changes into these rows. Their sum is exact in every snapshot
    (`selectors.job_counts`), and no two writers of jobs update one row.
    """

    project_id = models.UUIDField()
    application_id = models.UUIDField()
    target_kind = models.CharField(max_length=20)
    state = models.CharField(max_length=10)
    jobs = models.BigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["application_id", "project_id", "target_kind", "state"],
                name="job_count_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.jobs} {self.state}"


class JobCountChange(models.Model):
    """A change of a number of jobs that is not yet folded into `JobCount`."""

    project_id = models.UUIDField()
    application_id = models.UUIDField()
    target_kind = models.CharField(max_length=20)
    state = models.CharField(max_length=10)
    change = models.BigIntegerField()

    class Meta:
        # the list of applications
        indexes = (models.Index(fields=["application_id"], name="job_count_change_by_app"),)

    def __str__(self) -> str:
        return f"{self.change:+d} {self.state}"


class Archive(models.Model):
    """An archive of files that commands get; equal ones are stored once.

    It is deleted with the last job that has it.
    """

    digest = models.CharField(max_length=71, primary_key=True, help_text="sha256:...")
    data = models.BinaryField()
    used_at = models.DateTimeField(
        db_default=DatabaseClock(), help_text="wall time; of the last submission that named it"
    )

    def __str__(self) -> str:
        return self.digest


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
    run_s = models.FloatField(null=True, help_text="predicted run time, cluster seconds")
    run_high_s = models.FloatField(null=True, help_text="pessimistic end of its interval")
    grown_s = models.FloatField(null=True, help_text="cluster seconds; when units were added last")
    attempts = models.PositiveIntegerField(default=0, help_text="times it was launched")
    tries = models.PositiveIntegerField(default=0, help_text="decisions since it was queued")
    progress = models.FloatField(default=0.0, help_text="share of the work done, 0-1")
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


class SearchTerms(models.Model):
    """The name, labels and request of a job: what searches use and changes of its state do not.

    A change of a job's state adds an entry to every index of its table. With the three indexes of
    this table, such a change would take half as long again. Triggers copy the columns of new and
    changed jobs.
    """

    # no constraint: a trigger inserts the row, and it would be checked for each new job
    job = models.OneToOneField(
        Job,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="terms",
        db_constraint=False,
    )
    name = models.CharField(max_length=127)
    labels = models.JSONField()
    correlation_id = models.CharField(max_length=64)

    class Meta:
        indexes = (
            HashIndex(fields=["correlation_id"], name="terms_by_request"),
            GinIndex(fields=["labels"], name="terms_by_label", opclasses=["jsonb_path_ops"]),
            # beginnings of the words of the name
            GinIndex(Words("name"), name="terms_by_word"),
        )

    def __str__(self) -> str:
        return self.name
