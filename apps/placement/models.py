"""Fronts, preference sets and what is in force, classes of containers, plans and their moves."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.common.core.ids import uuid7
from apps.inventory.models import Platform
from apps.operations.models import Operation
from apps.workloads.models import Job

# ---- what is known of containers (C1) ----


class ContainerClass(models.Model):
    """What telemetry says of one container: the part of a job that one allocation holds."""

    allocation_id = models.BigIntegerField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="container_classes")
    read_s = models.FloatField(help_text="cluster seconds of the last reading that counted")
    intensity = models.FloatField(null=True, help_text="smoothed, 0-1")
    is_taz = models.BooleanField(default=False)
    communication = models.PositiveSmallIntegerField(
        default=0, help_text="of its job: core.instance.Communication"
    )

    def __str__(self) -> str:
        return f"{self.allocation_id} {'taz' if self.is_taz else 'turtle'}"


class Threshold(models.Model):
    """Where one metric begins to cost a container more than a tenth on one platform (C1)."""

    platform = models.ForeignKey(Platform, on_delete=models.CASCADE, related_name="thresholds")
    metric = models.PositiveSmallIntegerField(help_text="core.classes.Metric")
    value = models.FloatField(help_text="of a container, in the metric's unit; infinite: never")
    accuracy = models.FloatField(help_text="share of the readings on the right side of it, 0-1")
    readings = models.PositiveIntegerField()
    learnt_s = models.FloatField(help_text="cluster seconds")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["platform", "metric"], name="threshold_once"),
        )

    def __str__(self) -> str:
        return f"{self.platform_id} {self.metric} {self.value:.4g}"


# ---- objectives beside those built in (C2) ----


class CurveObjective(models.Model):
    """Money, carbon: what a kilowatt-hour costs, by rack and hour (`core.curves`)."""

    name = models.CharField(max_length=31, unique=True)
    label = models.CharField(max_length=63)
    unit = models.CharField(max_length=63, blank=True)
    hours = ArrayField(models.FloatField(), help_text="length of each step")
    curve = models.JSONField(help_text='a kilowatt-hour in each step, by rack; "" is any other')
    weight = models.FloatField(
        default=0.0, help_text="in F on the running cluster, beside the weights in force"
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
    """Which workload a front is of."""

    CLUSTER = "cluster", "what runs on the cluster, now or at a moment"
    INSTANCE = "instance", "an instance that was handed in"


class Front(models.Model):
    """One search for the front of one workload; its versions are what it had found when."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    number = models.PositiveIntegerField(unique=True, help_text="shown as f-0031")
    operation = models.OneToOneField(
        Operation, on_delete=models.PROTECT, related_name="front", help_text="its progress"
    )
    source = models.CharField(max_length=8, choices=FrontSource.choices)
    cluster_s = models.FloatField(null=True, help_text="moment the workload is of")
    instance = models.BinaryField(
        null=True, help_text="zlib of its JSON; null until a worker has read the cluster"
    )
    containers = models.PositiveIntegerField(default=0)
    nodes = models.PositiveIntegerField(default=0)
    budget_s = models.FloatField(help_text="wall seconds")
    seed = models.BigIntegerField()
    scales = models.JSONField(
        default=dict, help_text="what divides raw P, D and C; null where nothing does"
    )
    mix = models.JSONField(
        default=dict, help_text="nodes and containers of each kind: see core.mix"
    )
    anchors = models.JSONField(
        default=list, help_text="named placements beside the front: name, raw, normalised"
    )
    history = models.JSONField(
        default=list,
        help_text="per generation looked at: seconds, generation, hypervolume, points",
    )
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (models.Index(fields=["-created_at", "-id"], name="front_by_age"),)

    def __str__(self) -> str:
        return f"f-{self.number:04d}"


class FrontVersion(models.Model):
    """What a search had found at one moment; never changed, so that picks keep their meaning."""

    front = models.ForeignKey(Front, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(help_text="1 = the first")
    points = models.PositiveIntegerField(help_text="found, of which `shown` are kept")
    shown = models.PositiveIntegerField()
    generations = models.PositiveIntegerField()
    seconds = models.FloatField(help_text="wall seconds of search")
    hypervolume = models.FloatField()
    is_exact = models.BooleanField(default=False)
    raw = models.BinaryField(help_text="(shown, 3) float64 P, D, C")
    normalised = models.BinaryField(help_text="(shown, 3) float64 P, D, C")
    assignments = models.BinaryField(help_text="zlib of (shown, containers) int32 nodes")
    facts = models.BinaryField(help_text="zlib of JSON, columns by name: see selectors.fronts")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["front", "number"], name="front_version_once"),
        )

    def __str__(self) -> str:
        return f"{self.front_id} v{self.number}"


# ---- preference sets (C4, C5) ----


class Rule(models.TextChoices):
    """How weights come about."""

    SPREAD = "spread", "inverse spread of the picks"
    REFERENCE = "reference", "distance of what is wanted to the best"
    DIRECT = "direct", "given as such"


class PreferenceSet(models.Model):
    """Picks, the rule and the weights they give; written once, but for its name and note."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=63, unique=True)
    note = models.CharField(max_length=500, blank=True)
    parent = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="children"
    )
    version = models.ForeignKey(
        FrontVersion, on_delete=models.PROTECT, null=True, related_name="preference_sets"
    )
    rule = models.CharField(max_length=9, choices=Rule.choices)
    picks = models.JSONField(
        default=dict, help_text='by screen ("P-D", "P-C", "D-C"): points accepted there'
    )
    rejected = models.JSONField(default=list, help_text="points")
    wanted = models.JSONField(default=dict, help_text="normalised value by objective, or weights")
    weights = models.JSONField(help_text="by objective, the largest 1")
    spread = models.JSONField(default=dict, help_text="by objective: see core.weights")
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
    """Weights that came into force; those of the newest row are in force now."""

    preference_set = models.ForeignKey(
        PreferenceSet, on_delete=models.PROTECT, related_name="activations"
    )
    weights = models.JSONField()
    message = models.CharField(max_length=500)
    racks = ArrayField(
        models.BigIntegerField(), default=list, help_text="only there at first; empty: everywhere"
    )
    reverts = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="reverted_by"
    )
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)
    cluster_s = models.FloatField()
    guard_drop = models.FloatField(
        null=True, help_text="of the share of targets met, from which on it is reverted; 0-1"
    )
    guard_s = models.FloatField(default=600.0, help_text="for so many cluster seconds on end")
    met_before = models.FloatField(null=True, help_text="share of targets met when it began, 0-1")
    low_since_s = models.FloatField(null=True, help_text="since when the guard sees a drop")

    def __str__(self) -> str:
        return f"{self.id} {self.weights}"


# ---- plans (C7) ----


class Mode(models.TextChoices):
    """What the online loop does with its plans."""

    OFF = "off", "makes none"
    ADVISE = "advise", "somebody must approve them"
    AUTOMATIC = "automatic", "carries them out"


class Loop(models.Model):
    """How the cluster is re-placed (a single row, id 1)."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    mode = models.CharField(max_length=9, choices=Mode.choices, default=Mode.OFF)
    every_s = models.FloatField(default=60.0, help_text="cluster seconds between two looks")
    solve_s = models.FloatField(default=2.0, help_text="wall seconds a search may take")
    moves_per_plan = models.PositiveIntegerField(default=40)
    moves_per_minute = models.PositiveIntegerField(
        default=20, help_text="begun in one cluster minute, over the cluster"
    )
    moves_per_job = models.PositiveIntegerField(
        default=2, help_text="plans that may move one job within an hour"
    )
    youngest_s = models.FloatField(
        default=300.0, help_text="jobs that run for less, or end within, are left alone"
    )
    least_gain = models.FloatField(default=0.0005, help_text="of F, for a plan to be proposed")
    migration = models.FloatField(
        default=0.05, help_text="what moving all containers once would cost, in F"
    )
    looked_s = models.FloatField(default=0.0, help_text="cluster seconds of the last look")
    looked_at = models.DateTimeField(null=True)
    generation = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(id=1), name="loop_is_single"),)

    def __str__(self) -> str:
        return self.mode


class PlanState(models.TextChoices):
    """Life of a plan."""

    PROPOSED = "proposed", "waits for somebody to approve it"
    APPROVED = "approved", "is about to begin"
    RUNNING = "running", "containers move"
    PAUSED = "paused", "no further move begins"
    DONE = "done", "all moves ended"
    CANCELLED = "cancelled", "somebody stopped it"
    SUPERSEDED = "superseded", "the cluster moved on"
    FAILED = "failed", "moves failed, the rest was left"


class Cause(models.TextChoices):
    """Why a plan was made."""

    LOOP = "loop", "it was time"
    REQUEST = "request", "somebody asked for it"
    REVERSE = "reverse", "it takes another plan back"


class Plan(models.Model):
    """Moves that bring the cluster nearer to the weights in force, and what came of them."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    number = models.PositiveIntegerField(unique=True, help_text="shown as p-0012")
    state = models.CharField(max_length=10, choices=PlanState.choices, default=PlanState.PROPOSED)
    cause = models.CharField(max_length=8, choices=Cause.choices)
    preference_set = models.ForeignKey(
        PreferenceSet, on_delete=models.PROTECT, null=True, related_name="plans"
    )
    activation = models.ForeignKey(
        Activation,
        on_delete=models.SET_NULL,
        null=True,
        related_name="plans",
        help_text="that was in force when it was made",
    )
    weights = models.JSONField(help_text="of it, and of objectives that somebody added")
    reverses = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="reversed_by"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    cluster_s = models.FloatField()
    snapshot = models.BigIntegerField(help_text="change-log sequence it was made from")
    seconds = models.FloatField(help_text="wall seconds of search")
    gap = models.FloatField(help_text="(F - bound)/(F + beta) of what it leads to")
    predicted = models.JSONField(help_text="before and after: see core.prediction")
    realised = models.JSONField(null=True, help_text="after it ended, the same measures")
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


class Purpose(models.TextChoices):
    """What a bundle of moves is for."""

    EMPTY = "empty", "a server can be switched off"
    PROTECT = "protect", "intense containers are kept apart"
    GATHER = "gather", "a job's containers come together"
    IMPROVE = "improve", "a better place for one container"
    REVERSE = "reverse", "back to where it was"


class MoveState(models.TextChoices):
    """Life of one move."""

    WAITING = "waiting"
    MOVING = "moving"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Move(models.Model):
    """One container from one server to another; moves of a bundle make sense only together."""

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="moves")
    ordinal = models.PositiveIntegerField(help_text="carried out in this order, from 0")
    bundle = models.PositiveIntegerField()
    purpose = models.CharField(max_length=8, choices=Purpose.choices)
    about = models.CharField(max_length=127, help_text="the server emptied, or the job helped")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="moves")
    allocation_id = models.BigIntegerField()
    from_server_id = models.BigIntegerField()
    to_server_id = models.BigIntegerField()
    units = models.PositiveIntegerField()
    gain = models.FloatField(help_text="of F by its whole bundle, in this order; > 0 is better")
    state = models.CharField(max_length=9, choices=MoveState.choices, default=MoveState.WAITING)
    message = models.CharField(max_length=500, blank=True)
    migration_id = models.BigIntegerField(null=True, help_text="of execution")
    predicted_s = models.FloatField(help_text="cluster seconds it is expected to take")
    began_s = models.FloatField(null=True)
    ended_s = models.FloatField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["plan", "ordinal"], name="move_once"),)
        indexes = (
            # how often a job was moved, and where to
            models.Index(fields=["job", "-began_s"], name="move_by_job"),
            # budgets, and what was moved within the hour
            models.Index(
                fields=["began_s"], name="move_by_begin", condition=Q(began_s__isnull=False)
            ),
        )

    def __str__(self) -> str:
        return f"{self.plan_id} #{self.ordinal}"
