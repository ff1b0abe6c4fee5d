"""Container classes, fronts, preference sets and activated weights."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.common.core.ids import uuid7
from apps.inventory.models import Platform
from apps.operations.models import Operation
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
