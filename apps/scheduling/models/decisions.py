"""Decisions of agents, and the copies of the cluster that they are repeated from."""

from django.db import models
from django.db.models import Q

from apps.common.core.ids import uuid7
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

    @property
    def is_by_policy(self) -> bool:
        """Whether a policy ran: not if sizing, the quota or the admission control refused it."""
        return self.examined > 0 or self.elapsed_s > 0.0


class DecisionBatch(models.Model):
    """The inputs of one call of a policy, apart from the cluster; replays of its decisions use it.

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
