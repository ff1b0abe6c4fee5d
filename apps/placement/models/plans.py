"""The rebalancing loop, its plans and their migrations (C7)."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.common.core.ids import uuid7
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models.fronts import Activation, PreferenceSet
from apps.workloads.models import Job


class LoopMode(models.TextChoices):
    """Mode of the rebalancing loop."""

    OFF = "off", "creates no plans"
    ADVISE = "advise", "plans need approval"
    AUTOMATIC = "automatic", "plans run without approval"


class RebalancingLoop(models.Model):
    """Settings and last tick of the rebalancing loop (a single row, id 1)."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    mode = models.CharField(max_length=9, choices=LoopMode.choices, default=LoopMode.OFF)
    every_s = models.FloatField(default=60.0, help_text="cluster seconds between two ticks")
    solve_s = models.FloatField(default=2.0, help_text="limit of a search in wall seconds")
    moves_per_plan = models.PositiveIntegerField(default=40)
    moves_per_minute = models.PositiveIntegerField(
        default=20, help_text="migrations started per cluster minute, cluster-wide"
    )
    moves_per_job = models.PositiveIntegerField(
        default=2, help_text="plans per hour that may migrate the same job"
    )
    youngest_s = models.FloatField(
        default=300.0, help_text="jobs younger than this, or due to end within it, stay"
    )
    least_gain = models.FloatField(
        default=0.0005, help_text="minimum gain in F of a proposed plan"
    )
    migration = models.FloatField(
        default=0.05, help_text="cost in F of migrating every container once"
    )
    looked_s = models.FloatField(default=0.0, help_text="cluster seconds of the last tick")
    looked_at = models.DateTimeField(null=True)
    generation = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(id=1), name="loop_is_single"),)
        db_table = "placement_loop"

    def __str__(self) -> str:
        return self.mode


PLAN_STATES = (
    (PlanState.PROPOSED.value, "awaits approval"),
    (PlanState.APPROVED.value, "about to start"),
    (PlanState.RUNNING.value, "migrating"),
    (PlanState.PAUSED.value, "no further migration starts"),
    (PlanState.DONE.value, "finished"),
    (PlanState.CANCELLED.value, "stopped by a user"),
    (PlanState.SUPERSEDED.value, "outdated: the cluster or the weights changed"),
    (PlanState.FAILED.value, "all attempted migrations failed"),
)


class PlanCause(models.TextChoices):
    """Why a plan was created."""

    LOOP = "loop", "scheduled by the loop"
    REQUEST = "request", "requested by a user"
    REVERSE = "reverse", "rolls back another plan"
    MIGRATE = "migrate", "migrates one job, requested by a user"


NAMED_CAUSES = (PlanCause.REVERSE, PlanCause.MIGRATE)


class Plan(models.Model):
    """Migrations that improve the placement under the weights in force, and their outcome."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    number = models.PositiveIntegerField(unique=True, help_text="shown as p-0012")
    state = models.CharField(max_length=10, choices=PLAN_STATES, default=PlanState.PROPOSED)
    cause = models.CharField(max_length=8, choices=PlanCause.choices)
    preference_set = models.ForeignKey(
        PreferenceSet, on_delete=models.PROTECT, null=True, related_name="plans"
    )
    activation = models.ForeignKey(
        Activation,
        on_delete=models.SET_NULL,
        null=True,
        related_name="plans",
        help_text="weights in force when the plan was created",
    )
    weights = models.JSONField(help_text="of the activation and of the custom objectives")
    reverses = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="reversed_by"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    cluster_s = models.FloatField()
    snapshot = models.BigIntegerField(
        help_text="change-log number of the cluster it was computed from"
    )
    seconds = models.FloatField(help_text="wall seconds of search")
    gap = models.FloatField(help_text="(F - bound)/(F + beta) after the plan")
    predicted = models.JSONField(
        help_text="before and after, on the cluster it was last based on: see"
        " core.rebalancing.prediction"
    )
    proposed = models.JSONField(
        default=dict,
        help_text="before, after, moves and bundles when it was proposed or last trimmed",
    )
    rebased_at = models.DateTimeField(null=True, help_text="of the last re-base")
    rebased_s = models.FloatField(null=True, help_text="cluster seconds of the last re-base")
    changes = models.JSONField(
        default=list,
        help_text="bundles dropped or rewritten since it was proposed: see"
        " core.rebalancing.changes",
    )
    realised = models.JSONField(null=True, help_text="the same measures after the plan ended")
    verdict = models.CharField(max_length=500, blank=True)
    message = models.CharField(max_length=500, blank=True)
    approved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    approved_s = models.FloatField(null=True)
    began_s = models.FloatField(null=True)
    ended_s = models.FloatField(null=True)
    generation = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["state"],
                name="one_plan_under_way",
                condition=Q(state="running"),
            ),
        )
        indexes = (
            models.Index(fields=["-created_at", "-id"], name="plan_by_age"),
            models.Index(fields=["state", "-created_at"], name="plan_by_state"),
        )

    def __str__(self) -> str:
        return f"p-{self.number:04d}"

    @property
    def is_named(self) -> bool:
        """Whether a user named its migrations: they are carried out whatever they gain in F."""
        return self.cause in NAMED_CAUSES


class MigrationPurpose(models.TextChoices):
    """Purpose of a bundle of migrations."""

    EMPTY = "empty", "empty a server so that it can be switched off"
    PROTECT = "protect", "keep intense containers apart"
    GATHER = "gather", "bring the containers of a job together"
    IMPROVE = "improve", "move one container to a better server"
    REVERSE = "reverse", "roll back an earlier migration"
    TARGET = "target", "bring a job back to its target"


class PlannedMigrationState(models.TextChoices):
    """State of a planned migration."""

    WAITING = "waiting"
    MOVING = "moving"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"


class PlannedMigration(models.Model):
    """Migration of one container, part of a plan; a bundle is carried out whole or not at all."""

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="migrations")
    ordinal = models.PositiveIntegerField(help_text="order of execution, from 0")
    bundle = models.PositiveIntegerField()
    purpose = models.CharField(max_length=8, choices=MigrationPurpose.choices)
    about = models.CharField(max_length=127, help_text="server to empty, or job to improve")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="planned_migrations")
    allocation_id = models.BigIntegerField()
    from_server_id = models.BigIntegerField()
    to_server_id = models.BigIntegerField()
    units = models.PositiveIntegerField()
    gain = models.FloatField(
        help_text="gain in F of the whole bundle, in this order; > 0 is better"
    )
    state = models.CharField(
        max_length=9, choices=PlannedMigrationState.choices, default=PlannedMigrationState.WAITING
    )
    message = models.CharField(max_length=500, blank=True)
    migration_id = models.BigIntegerField(null=True, help_text="id in the execution app")
    predicted_s = models.FloatField(help_text="predicted duration in cluster seconds")
    began_s = models.FloatField(null=True)
    ended_s = models.FloatField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["plan", "ordinal"], name="move_once"),)
        indexes = (
            # migrations of a job, newest first
            models.Index(fields=["job", "-began_s"], name="move_by_job"),
            # start budgets, and the migrations of the last hour
            models.Index(
                fields=["began_s"], name="move_by_begin", condition=Q(began_s__isnull=False)
            ),
        )
        db_table = "placement_move"

    def __str__(self) -> str:
        return f"{self.plan_id} #{self.ordinal}"
