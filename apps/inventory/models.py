"""Platforms, racks, servers, resource units and the change log that agents follow."""

from typing import Final

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from apps.common.core.clock import ClusterClock
from apps.inventory.core.backends import CAPABILITIES, EMULATED

CLOCK_UNSEEN_S: Final = 30.0  # wall seconds without a record after which a clock has crashed


class ServerState(models.TextChoices):
    """Whether a server takes new work."""

    ACTIVE = "active"
    CORDONED = "cordoned", "cordoned (keeps its jobs, takes no new ones)"
    DRAINING = "draining", "draining (waits for its jobs to end)"
    DOWN = "down", "down (silent or switched off)"


class Cluster(models.Model):
    """The cluster of this installation and its clock (a single row, id 1)."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    name = models.CharField(max_length=63, default="north-quay")
    seed = models.BigIntegerField(
        default=2011, help_text="Seed of all random numbers of the emulation."
    )
    wall_anchor_s = models.FloatField(default=0.0)
    cluster_anchor_s = models.FloatField(default=0.0)
    speed = models.FloatField(
        default=0.0, help_text="Cluster seconds per wall second; 0 = stopped."
    )
    seen_cluster_s = models.FloatField(
        default=0.0,
        help_text="Last recorded cluster time; the clock continues here after a crash.",
    )
    stepped_back_s = models.FloatField(
        default=0.0,
        help_text="Wall seconds by which the wall clock was set back; leases have yet to follow.",
    )

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(id=1), name="cluster_is_single"),)

    def __str__(self) -> str:
        return self.name

    @property
    def recorded_s(self) -> float:
        """Cluster time when the clock was last recorded."""
        return max(self.cluster_anchor_s, self.seen_cluster_s)

    @property
    def clock(self) -> ClusterClock:
        """The clock defined by this row; it stays near the last record if the wall clock steps."""
        return ClusterClock(
            wall_anchor_s=self.wall_anchor_s,
            cluster_anchor_s=self.cluster_anchor_s,
            speed=self.speed,
            min_s=self.recorded_s,
            max_s=self.recorded_s + CLOCK_UNSEEN_S * self.speed,
        )


class Platform(models.Model):
    """A server configuration (SC): the common properties of identical servers."""

    name = models.CharField(max_length=63, unique=True)
    cores = models.PositiveIntegerField()
    memory_bytes = models.BigIntegerField()
    network_bps = models.BigIntegerField()
    storage_bytes = models.BigIntegerField()
    idle_watts = models.FloatField()
    peak_watts = models.FloatField()
    rank = models.PositiveIntegerField(
        unique=True, help_text="0 = the highest-end platform, where profiling starts."
    )

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(cores__gte=1), name="platform_has_cores"),
            models.CheckConstraint(
                condition=Q(peak_watts__gte=F("idle_watts"), idle_watts__gte=0),
                name="platform_watts_in_order",
            ),
        )

    def __str__(self) -> str:
        return self.name


class Rack(models.Model):
    """The servers behind one switch of their own; several racks may share the next switch."""

    name = models.CharField(max_length=63, unique=True)
    switch = models.CharField(
        max_length=63,
        default="",
        db_default="",
        blank=True,
        help_text="the switch above the rack's own; empty: none, or not known",
    )

    def __str__(self) -> str:
        return self.name


class Server(models.Model):
    """One machine with a capacity vector; ``used_*`` are the live sums of its allocations."""

    name = models.CharField(max_length=63, unique=True)
    platform = models.ForeignKey(Platform, on_delete=models.PROTECT, related_name="servers")
    rack = models.ForeignKey(Rack, on_delete=models.PROTECT, related_name="servers")
    state = models.CharField(
        max_length=10, choices=ServerState.choices, default=ServerState.ACTIVE
    )
    backend = models.CharField(
        max_length=31,
        choices=[(name, name) for name in CAPABILITIES],
        default=EMULATED,
        db_default=EMULATED,
        help_text="who executes its jobs; all servers of a platform have the same one",
    )
    labels = models.JSONField(default=dict, blank=True)
    cores = models.PositiveIntegerField()
    l3_groups = ArrayField(
        models.PositiveSmallIntegerField(),
        default=list,
        blank=True,
        help_text="L3 cache that each core shares with others, from 0; empty: one, or not known",
    )
    memory_bytes = models.BigIntegerField()
    network_bps = models.BigIntegerField()
    storage_bytes = models.BigIntegerField()
    idle_watts = models.FloatField()
    peak_watts = models.FloatField()
    oversubscription = models.FloatField(
        default=1.0, help_text="Allowed sum of allocations over capacity, per resource."
    )
    used_cores = models.PositiveIntegerField(default=0)
    used_memory_bytes = models.BigIntegerField(default=0)
    used_network_bps = models.BigIntegerField(default=0)
    used_storage_bytes = models.BigIntegerField(default=0)
    generation = models.PositiveIntegerField(default=1)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(used_cores__gte=0)
                & Q(used_cores__lte=F("cores") * F("oversubscription")),
                name="server_cores_within_capacity",
            ),
            models.CheckConstraint(
                condition=Q(used_memory_bytes__gte=0)
                & Q(used_memory_bytes__lte=F("memory_bytes") * F("oversubscription")),
                name="server_memory_within_capacity",
            ),
            models.CheckConstraint(
                condition=Q(used_network_bps__gte=0)
                & Q(used_network_bps__lte=F("network_bps") * F("oversubscription")),
                name="server_network_within_capacity",
            ),
            models.CheckConstraint(
                condition=Q(used_storage_bytes__gte=0)
                & Q(used_storage_bytes__lte=F("storage_bytes") * F("oversubscription")),
                name="server_storage_within_capacity",
            ),
        )

    def __str__(self) -> str:
        return self.name


class ResourceUnit(models.Model):
    """One core with an equal share of its server; held by at most one live allocation.

    ``allocation_id`` names a row of ``scheduling.Allocation`` (a higher app, hence no foreign
    key). One column, so a unit cannot be held twice whatever any process believes.
    """

    # the index of unit_is_one_core begins with it
    server = models.ForeignKey(
        Server, on_delete=models.CASCADE, related_name="units", db_index=False
    )
    core = models.PositiveIntegerField()
    allocation_id = models.BigIntegerField(null=True)
    version = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["server", "core"], name="unit_is_one_core"),
        )

    def __str__(self) -> str:
        return f"{self.server_id}/{self.core}"


class ChangeKind(models.TextChoices):
    """Kind of a change-log entry."""

    CLAIM = "claim"
    RELEASE = "release"
    OPEN = "open", "server takes new work"
    CLOSE = "close", "server takes no new work"
    TOPOLOGY = "topology", "servers were added or removed: reload the cluster"
    PRUNED = "pruned", "this entry and earlier ones were deleted: reload the cluster"


class Change(models.Model):
    """One entry of the change log of the shared cluster state.

    Numbers have gaps, and a higher one may be visible before a lower one: a reader of
    ``seq > last`` stops at `selectors.log_position`.
    """

    seq = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=10, choices=ChangeKind.choices)
    at = models.DateTimeField()
    cluster_s = models.FloatField()
    server_id = models.BigIntegerField()  # 0: none, only switches above racks have changed
    allocation_id = models.BigIntegerField(null=True)
    unit_ids = ArrayField(models.BigIntegerField(), default=list)
    vector = ArrayField(
        models.FloatField(), default=list, help_text="memory bytes, network bits/s, storage bytes"
    )
    caused = ArrayField(
        models.FloatField(),
        default=list,
        help_text="interference that each of the units causes, by source, 0-100",
    )
    tolerated = ArrayField(
        models.FloatField(),
        default=list,
        help_text="interference that the job of a claim tolerates, by source; empty: unknown",
    )

    class Meta:
        indexes = (
            # the version of the servers: without it, a poll reads all changes since the last one
            models.Index(
                fields=["seq"], name="change_of_topology", condition=Q(kind=ChangeKind.TOPOLOGY)
            ),
        )

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"


class ServerReading(models.Model):
    """The latest usage report and heartbeat of one server; narrow, so updates stay on the page."""

    server = models.OneToOneField(
        Server, on_delete=models.CASCADE, primary_key=True, related_name="reading"
    )
    at = models.DateTimeField()
    cluster_s = models.FloatField()
    cpu_share = models.FloatField(help_text="share of the server's cores in use, 0-1")
    memory_share = models.FloatField(default=0.0)
    network_share = models.FloatField(default=0.0)
    storage_share = models.FloatField(default=0.0)
    watts = models.FloatField()
    backend = models.CharField(max_length=31)

    def __str__(self) -> str:
        return f"{self.server_id} {self.cpu_share:.2f}"


class ClusterFrame(models.Model):
    """State of the whole cluster at one moment of cluster time: the history shown on the pages.

    The two byte arrays hold one uint8 per server in order of ``Server.id``: 0-200 = half percents,
    255 = not known.
    """

    at = models.DateTimeField()
    cluster_s = models.FloatField(unique=True)
    server_cpu = models.BinaryField()
    server_allocated = models.BinaryField()
    servers = models.PositiveIntegerField()
    units = models.PositiveIntegerField()
    units_allocated = models.PositiveIntegerField()
    cpu_share = models.FloatField()
    memory_share = models.FloatField()
    watts = models.FloatField()
    servers_on = models.PositiveIntegerField()
    facts = models.JSONField(
        default=dict,
        help_text="jobs by state, targets met, decision latency: see execution.services",
    )

    def __str__(self) -> str:
        return f"frame at {self.cluster_s:.0f} s"


class DefaultPolicy(models.Model):
    """The placement policy that an administrator applied to the cluster (a single row, id 1)."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    policy = models.CharField(
        max_length=63, blank=True, help_text="empty: the setting BERTH_POLICY decides"
    )
    reason = models.CharField(max_length=500, blank=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    changed_at = models.DateTimeField(null=True)
    generation = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(id=1), name="policy_is_single"),)

    def __str__(self) -> str:
        return self.policy
