"""Decisions and allocations."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.accounts.models import User
from apps.common.core.ids import uuid7
from apps.common.infrastructure.database import DatabaseClock
from apps.scheduling.infrastructure.candidates import CandidatesField
from apps.workloads.models import Job


class Outcome(models.TextChoices):
    """How a decision ended."""

    PLACED = "placed"
    REFUSED = "refused"
    CONFLICT = "conflict", "another agent was faster on every try"


class Decision(models.Model):
    """A decision of an agent on one job, with its inputs.

    Immutable; explanations use only this row.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # decision_by_job begins with it
    job = models.ForeignKey(
        Job, on_delete=models.CASCADE, related_name="decisions", db_index=False
    )
    at = models.DateTimeField()
    cluster_s = models.FloatField()
    agent = models.CharField(max_length=63)
    policy = models.CharField(max_length=63)
    policy_version = models.PositiveIntegerField()
    code_version = models.CharField(max_length=31)
    seed = models.BigIntegerField()
    snapshot = models.BigIntegerField(help_text="change-log sequence of the agent's copy")
    profile_id = models.UUIDField(null=True)
    outcome = models.CharField(max_length=8, choices=Outcome.choices)
    reason_code = models.CharField(max_length=40)
    units = models.PositiveIntegerField()
    units_won = models.PositiveIntegerField(default=0)
    sample_size = models.PositiveIntegerField(help_text="R, candidates per unit")
    examined = models.PositiveIntegerField()
    eligible = models.PositiveIntegerField()
    servers_total = models.PositiveIntegerField()
    dropped = models.JSONField(default=dict, help_text="units each filter dropped")
    candidates = CandidatesField(default=list, help_text="examined units, best first")
    rank_threshold = models.FloatField(default=0.8)
    probability = models.FloatField(help_text="chance that the best is below the threshold")
    rank = models.FloatField(
        null=True, help_text="D of the chosen unit; only one in some is measured"
    )
    batch_id = models.UUIDField(null=True, help_text="`DecisionBatch`; null: decided by sizing")
    position = models.PositiveSmallIntegerField(null=True, help_text="in the batch, from 0")
    units_before = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="of a running job that was given more; 0 = it was waiting",
    )
    guarantee = models.JSONField(null=True, help_text="of the job, with the R that it needs")
    predicted = models.JSONField(default=dict)
    commit_retries = models.PositiveIntegerField(default=0)
    copy_age_s = models.FloatField(
        null=True, help_text="wall seconds from the agent's last read of the log to the commit"
    )
    changes_behind = models.BigIntegerField(
        null=True, help_text="changes of the log that the agent's copy lacked at the commit"
    )
    elapsed_s = models.FloatField(help_text="in the agent, from request to value")
    waited_s = models.FloatField(null=True, help_text="wall seconds from submission to commit")

    class Meta:
        indexes = (
            # a job's decisions, newest first
            models.Index(fields=["job", "-at"], name="decision_by_job"),
            # pruning of profiles: whether a decision refers to one
            models.Index(fields=["profile_id"], name="decision_by_profile"),
            # the decision log and latency figures
            models.Index(fields=["-at", "-id"], name="decision_by_age"),
            # lists by a value that few decisions may have: without an index, a search for it would
            # read the whole history
            models.Index(fields=["outcome", "-at", "-id"], name="decision_by_outcome"),
            models.Index(fields=["reason_code", "-at", "-id"], name="decision_by_reason"),
            models.Index(fields=["policy", "-at", "-id"], name="decision_by_policy"),
            models.Index(fields=["agent", "-at", "-id"], name="decision_by_agent"),
            models.Index(fields=["elapsed_s"], name="decision_by_elapsed"),
            models.Index(
                fields=["commit_retries"],
                name="decision_by_retries",
                condition=Q(commit_retries__gt=0),
            ),
            # the measured ranks of recent decisions
            models.Index(
                fields=["sample_size", "-at"],
                name="decision_ranked",
                condition=Q(rank__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return f"{self.job_id} {self.outcome}"


class DecisionBatch(models.Model):
    """What a policy decided on in one call, besides the cluster: repeats its decisions.

    Deleted before the decisions, hence no foreign key.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    at = models.DateTimeField()
    sequence = models.BigIntegerField(help_text="change-log sequence of the agent's copy")
    servers = models.PositiveIntegerField(help_text="of the topology, the first by id")
    platforms = models.PositiveIntegerField(help_text="of the topology, the first by rank")
    jobs = models.PositiveIntegerField()
    policy = models.CharField(max_length=63)
    code_version = models.CharField(max_length=31)
    inputs = models.BinaryField(help_text="`core.batch_inputs`")

    class Meta:
        indexes = (
            # retention
            models.Index(fields=["at"], name="decision_batch_by_age"),
        )

    def __str__(self) -> str:
        return f"{self.jobs} jobs by {self.policy}"


class ClusterCheckpoint(models.Model):
    """The agents' copy of the cluster at one number of the change log."""

    sequence = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    state = models.BinaryField(help_text="`core.checkpoints`")

    class Meta:
        indexes = (
            # retention
            models.Index(fields=["at"], name="cluster_checkpoint_by_age"),
        )

    def __str__(self) -> str:
        return f"at change {self.sequence}"


class Allocation(models.Model):
    """Units of one server held by one job, from commit to release.

    ``acquired_seq`` and ``released_seq`` are change-log numbers, a total order that lets checks
    verify that no unit was held twice.

    The target allocation of a migration names the source allocation in ``moved_from``. Until the
    migration is done (``moved_s``) it is a reservation: its units are held, while the job runs on
    the source.
    """

    id = models.BigIntegerField(primary_key=True)
    # allocation_of_job is its index
    job = models.ForeignKey(
        Job, on_delete=models.CASCADE, related_name="allocations", db_index=False
    )
    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="allocations")
    server_id = models.BigIntegerField()
    unit_ids = ArrayField(models.BigIntegerField())
    cores = models.PositiveIntegerField()
    memory_bytes = models.BigIntegerField(default=0)
    network_bps = models.BigIntegerField(default=0)
    storage_bytes = models.BigIntegerField(default=0)
    caused = ArrayField(models.FloatField())
    tolerated = ArrayField(
        models.FloatField(), default=list, help_text="by source, 0-100; empty: unknown"
    )
    acquired_seq = models.BigIntegerField()
    released_seq = models.BigIntegerField(null=True)
    acquired_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)
    acquired_s = models.FloatField()
    released_s = models.FloatField(null=True)
    moved_from = models.BigIntegerField(null=True, help_text="the allocation it takes over from")
    moved_s = models.FloatField(null=True, help_text="cluster seconds; null: it never took over")
    core_choice = models.JSONField(
        null=True, help_text="`core.chips.CoreChoice`; null: its server has one L3 group"
    )

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(moved_s__isnull=True) | Q(moved_from__isnull=False),
                name="allocation_moved_from_another",
            ),
            models.CheckConstraint(
                condition=Q(released_seq__isnull=True)
                | Q(released_seq__gt=models.F("acquired_seq")),
                name="allocation_released_after_acquired",
            ),
        )
        indexes = (
            # allocations of a job; without `released_seq` the planner would combine it with all
            # live allocations for each job that starts
            models.Index(fields=["job", "released_seq"], name="allocation_of_job"),
            # live allocations of a server
            models.Index(
                fields=["server_id"],
                name="allocation_live_by_server",
                condition=Q(released_seq__isnull=True),
            ),
            # history of a server
            models.Index(fields=["server_id", "-acquired_seq"], name="allocation_by_server"),
            # the allocation that replaced another one
            models.Index(
                fields=["moved_from"],
                name="allocation_by_moved_from",
                condition=Q(moved_from__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return f"{self.id} of {self.job_id}"


class Reservation(models.Model):
    """Units kept for a gang that has waited long, until it is placed.

    Another job may use them if it ends before ``start_s``. Rows of jobs that no longer wait have
    no effect. Times are in cluster seconds.
    """

    job_id = models.UUIDField(unique=True)
    unit_ids = ArrayField(models.BigIntegerField())
    made_s = models.FloatField()
    promised_s = models.FloatField(help_text="the first `start_s`")
    start_s = models.FloatField(help_text="when the last unit is free, at the pessimistic end")

    def __str__(self) -> str:
        return f"{len(self.unit_ids)} units for {self.job_id}"


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

    The newest row of a job is its current estimate. A row is added when the estimate changes;
    ``placed_s`` is what happened. Null quantiles: later than the simulation reaches.
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


class ShadowEnd(models.TextChoices):
    """Why a shadow ended."""

    STOPPED = "stopped", "an operator stopped it"
    TIME = "time", "its end time was reached"
    FULL = "full", "it has compared the largest number of decisions"
    POLICY = "policy", "its policy is not installed any more, or has other parameters"


class Shadow(models.Model):
    """A policy that decides on a sample of the live decisions, without committing.

    The counters are those of all decisions up to the cursor. ``decided`` = compared + ``neither``.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    policy = models.CharField(max_length=63)
    parameters = models.JSONField(default=dict, help_text="that are not the defaults")
    share = models.FloatField(help_text="of the decisions, in (0, 1]")
    code_version = models.CharField(max_length=31)
    started_at = models.DateTimeField()
    started_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )
    until = models.DateTimeField(null=True, help_text="requested end; null: until it is stopped")
    ended_at = models.DateTimeField(null=True)
    end = models.CharField(max_length=8, choices=ShadowEnd.choices, blank=True)
    cursor_at = models.DateTimeField(help_text="of the last decision read")
    cursor_id = models.UUIDField(help_text="of the last decision read")
    seen = models.PositiveBigIntegerField(default=0, help_text="decisions by policies")
    decided = models.PositiveBigIntegerField(default=0, help_text="by both policies")
    neither = models.PositiveBigIntegerField(default=0, help_text="refused by both policies")
    dropped = models.PositiveBigIntegerField(default=0, help_text="sampled, but no time was left")
    unavailable = models.PositiveBigIntegerField(
        default=0, help_text="sampled, but the live decision could not be repeated"
    )
    busy_s = models.FloatField(default=0.0, help_text="CPU time")

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(share__gt=0.0, share__lte=1.0), name="shadow_share_within_one"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, end="") | Q(ended_at__isnull=False),
                name="shadow_end_with_time",
            ),
        )
        indexes = (
            # shadows that run; few rows
            models.Index(
                fields=["started_at"], name="shadow_running", condition=Q(ended_at__isnull=True)
            ),
            # retention
            models.Index(fields=["ended_at"], name="shadow_by_end"),
        )

    def __str__(self) -> str:
        return f"{self.policy} in the shadow"


class ShadowDecision(models.Model):
    """A live decision compared with that of a shadow; at least one of both placed the job.

    No foreign key to the decision, which may be deleted first.
    """

    # shadow_decision_once begins with it
    shadow = models.ForeignKey(
        Shadow, on_delete=models.CASCADE, related_name="decisions", db_index=False
    )
    decision_id = models.UUIDField()
    batch_id = models.UUIDField(help_text="of the decision")
    at = models.DateTimeField(help_text="of the decision")
    policy = models.CharField(max_length=63, help_text="that decided")
    kind = models.CharField(max_length=12, help_text="`core.shadow.JobKind`")
    platform = models.CharField(max_length=200, help_text="of the live choice; empty: refused")
    live_placed = models.BooleanField()
    shadow_placed = models.BooleanField()
    same_units = models.BooleanField()
    same_servers = models.BooleanField()
    same_platforms = models.BooleanField()
    job_regret = models.FloatField(null=True, help_text="null unless both placed the job")
    neighbour_regret = models.FloatField(null=True, help_text="null unless both placed the job")
    difference = models.FloatField(help_text="size of the regret, or `core.shadow.REFUSAL`")
    live = models.JSONField(help_text="`core.shadow.Choice`")
    shadowed = models.JSONField(help_text="`core.shadow.Choice` of the shadow")

    class Meta:
        constraints = (
            # a message that is delivered twice compares nothing twice
            models.UniqueConstraint(fields=["shadow", "decision_id"], name="shadow_decision_once"),
        )
        indexes = (
            # the most different decisions of a shadow
            models.Index(
                fields=["shadow", "-difference", "-id"], name="shadow_decision_by_difference"
            ),
        )

    def __str__(self) -> str:
        return f"{self.decision_id} in {self.shadow_id}"


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
