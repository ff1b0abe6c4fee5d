"""Container classes, fronts, preference sets, activated weights, plans and their migrations."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.common.core.ids import uuid7
from apps.inventory.models import Platform
from apps.operations.models import Operation
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.workloads.models import Job

# ---- container classes (C1) ----


class ContainerClass(models.Model):
    """Class of one container (the part of a job in one allocation), measured by telemetry."""

    allocation_id = models.BigIntegerField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="container_classes")
    read_s = models.FloatField(help_text="cluster seconds of the last sample used")
    intensity = models.FloatField(null=True, help_text="smoothed, 0-1")
    is_taz = models.BooleanField(default=False)
    communication = models.PositiveSmallIntegerField(
        default=0, help_text="class of its job: core.problem.instance.Communication"
    )

    def __str__(self) -> str:
        return f"{self.allocation_id} {'taz' if self.is_taz else 'turtle'}"


class MetricThreshold(models.Model):
    """Value of a metric from which a container on a platform loses more than 10 % (C1)."""

    platform = models.ForeignKey(Platform, on_delete=models.CASCADE, related_name="thresholds")
    metric = models.PositiveSmallIntegerField(help_text="core.monitoring.classes.Metric")
    value = models.FloatField(
        help_text="per container, in the unit of the metric; infinite: no threshold"
    )
    accuracy = models.FloatField(help_text="share of the samples it classifies correctly, 0-1")
    readings = models.PositiveIntegerField()
    learnt_s = models.FloatField(help_text="cluster seconds")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["platform", "metric"], name="threshold_once"),
        )
        db_table = "placement_threshold"

    def __str__(self) -> str:
        return f"{self.platform_id} {self.metric} {self.value:.4g}"


# ---- custom objectives (C2) ----


class CurveObjective(models.Model):
    """Cost or carbon of a kilowatt-hour by rack and hour (`core.problem.curves`)."""

    name = models.CharField(max_length=31, unique=True)
    label = models.CharField(max_length=63)
    unit = models.CharField(max_length=63, blank=True)
    hours = ArrayField(models.FloatField(), help_text="length of each interval")
    curve = models.JSONField(help_text='per kWh in each interval, by rack; "" is the default')
    weight = models.FloatField(
        default=0.0, help_text="in F on the running cluster, added to the weights in force"
    )
    generation = models.PositiveIntegerField(default=1)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(weight__gte=0), name="objective_weight_positive"),
        )

    def __str__(self) -> str:
        return self.name


# ---- fronts (C3) ----


class FrontSource(models.TextChoices):
    """Workload that a front is computed for."""

    CLUSTER = "cluster", "the running cluster, now or at a past time"
    INSTANCE = "instance", "a submitted instance"


class Front(models.Model):
    """A search for the Pareto front of a workload; each version stores an intermediate result."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    number = models.PositiveIntegerField(unique=True, help_text="shown as f-0031")
    operation = models.OneToOneField(
        Operation,
        on_delete=models.PROTECT,
        related_name="front",
        help_text="progress of the search",
    )
    source = models.CharField(max_length=8, choices=FrontSource.choices)
    cluster_s = models.FloatField(null=True, help_text="cluster time of the (last) workload")
    moments = models.JSONField(
        default=list, help_text="cluster seconds of its workloads, if it covers several"
    )
    instance = models.BinaryField(
        null=True,
        help_text="zlib-compressed JSON, a list for several moments; null until a worker has read"
        " the cluster",
    )
    containers = models.PositiveIntegerField(default=0)
    nodes = models.PositiveIntegerField(default=0)
    budget_s = models.FloatField(help_text="wall seconds")
    seed = models.BigIntegerField()
    scales = models.JSONField(
        default=dict, help_text="divisors of raw P, D and C; null if an objective is constant"
    )
    mix = models.JSONField(
        default=dict, help_text="nodes and containers of each kind: see core.front.mix"
    )
    anchors = models.JSONField(
        default=list, help_text="reference placements: name, raw, normalised"
    )
    history = models.JSONField(
        default=list,
        help_text="per sampled generation: seconds, generation, hypervolume, points",
    )
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (models.Index(fields=["-created_at", "-id"], name="front_by_age"),)

    def __str__(self) -> str:
        return f"f-{self.number:04d}"


class FrontVersion(models.Model):
    """Result of a search at one time; immutable, so that picks stay valid."""

    front = models.ForeignKey(Front, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(help_text="1 = the first")
    points = models.PositiveIntegerField(
        help_text="number of points found; `shown` of them are stored"
    )
    shown = models.PositiveIntegerField()
    generations = models.PositiveIntegerField()
    seconds = models.FloatField(help_text="wall seconds of search")
    hypervolume = models.FloatField()
    is_exact = models.BooleanField(default=False)
    raw = models.BinaryField(help_text="(shown, 3) float64 P, D, C")
    normalised = models.BinaryField(help_text="(shown, 3) float64 P, D, C")
    assignments = models.BinaryField(help_text="zlib-compressed (shown, containers) int32 nodes")
    facts = models.BinaryField(
        help_text="zlib-compressed JSON, columns by name: see selectors.fronts"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["front", "number"], name="front_version_once"),
        )

    def __str__(self) -> str:
        return f"{self.front_id} v{self.number}"


# ---- preference sets (C4, C5) ----


class WeightRule(models.TextChoices):
    """How weights are derived."""

    SPREAD = "spread", "inverse spread of the picks"
    REFERENCE = "reference", "distance from the reference point to the ideal point"
    DIRECT = "direct", "given directly"


class PreferenceSet(models.Model):
    """Picks, the rule and the derived weights; only the name and the note can change."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=63, unique=True)
    note = models.CharField(max_length=500, blank=True)
    parent = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="children"
    )
    version = models.ForeignKey(
        FrontVersion, on_delete=models.PROTECT, null=True, related_name="preference_sets"
    )
    rule = models.CharField(max_length=9, choices=WeightRule.choices)
    picks = models.JSONField(
        default=dict, help_text='accepted points by screen ("P-D", "P-C", "D-C")'
    )
    rejected = models.JSONField(default=list, help_text="rejected points")
    wanted = models.JSONField(default=dict, help_text="normalised values or weights, by objective")
    bounds = models.JSONField(
        default=dict, help_text="by objective: smallest value if higher is better, else largest"
    )
    weights = models.JSONField(help_text="by objective; the largest is 1")
    spread = models.JSONField(default=dict, help_text="by objective: see core.preference.weights")
    floored = models.JSONField(default=list)
    idle = models.JSONField(default=list)
    generation = models.PositiveIntegerField(default=1)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (models.Index(fields=["-created_at", "-id"], name="preference_by_age"),)

    def __str__(self) -> str:
        return self.name


class Activation(models.Model):
    """An activation of weights; the newest row holds the weights in force."""

    preference_set = models.ForeignKey(
        PreferenceSet, on_delete=models.PROTECT, related_name="activations"
    )
    weights = models.JSONField()
    message = models.CharField(max_length=500)
    racks = ArrayField(
        models.BigIntegerField(),
        default=list,
        help_text="ids of the racks they are limited to; empty: all",
    )
    reverts = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="reverted_by"
    )
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)
    cluster_s = models.FloatField()
    guard_drop = models.FloatField(
        null=True, help_text="drop in the share of targets met that triggers a revert, 0-1"
    )
    guard_s = models.FloatField(default=600.0, help_text="cluster seconds the drop must last")
    met_before = models.FloatField(null=True, help_text="share of targets met at activation, 0-1")
    low_since_s = models.FloatField(
        null=True, help_text="cluster seconds at which the current drop began"
    )

    def __str__(self) -> str:
        return f"{self.id} {self.weights}"


# ---- plans (C7) ----


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
