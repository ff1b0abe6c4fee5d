"""Platforms, servers and units in the API."""

from datetime import datetime
from typing import Any

from rest_framework import serializers

from apps.common.api.representations import time
from apps.inventory.models import Platform, ResourceUnit, Server, ServerReading, ServerState

SERVER_STATES = [(state.value, state.value) for state in ServerState]


class NamedSerializer(serializers.Serializer[Any]):
    """Identity of a platform."""

    id = serializers.IntegerField()
    name = serializers.CharField()


class CapacitySerializer(serializers.Serializer[Any]):
    """Capacity of one server of a platform."""

    cores = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    network_bps = serializers.IntegerField()
    storage_bytes = serializers.IntegerField()
    idle_watts = serializers.FloatField()
    peak_watts = serializers.FloatField()


class PlatformSpecSerializer(CapacitySerializer):
    """A server configuration."""

    rank = serializers.IntegerField(help_text="0 = the highest-end platform.")


class PlatformStatusSerializer(serializers.Serializer[Any]):
    """Servers and units of a platform."""

    servers = serializers.IntegerField()
    units = serializers.IntegerField()
    units_allocated = serializers.IntegerField()


class PlatformSerializer(serializers.Serializer[Any]):
    """A server configuration with its servers."""

    metadata = NamedSerializer()
    spec = PlatformSpecSerializer()
    status = PlatformStatusSerializer()


class SourceSerializer(serializers.Serializer[Any]):
    """A shared resource in which jobs interfere."""

    id = serializers.IntegerField(help_text="Position in every vector of ten.")
    name = serializers.CharField()


class SourcesSerializer(serializers.Serializer[Any]):
    """The ten sources of interference."""

    results = SourceSerializer(many=True)


class ServerMetadataSerializer(NamedSerializer):
    """Identity of a server."""

    labels = serializers.DictField(child=serializers.CharField())
    generation = serializers.IntegerField()
    etag = serializers.CharField(help_text="For If-Match.")
    updated_at = serializers.DateTimeField()


class ServerSpecSerializer(CapacitySerializer):
    """Properties of a server."""

    platform = serializers.CharField()
    rack = serializers.CharField()
    switch = serializers.CharField(help_text="The switch above the rack; empty: none.")
    oversubscription = serializers.FloatField()
    l3_groups = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="L3 cache of each core, from 0; empty: one, or not known.",
    )


class UsedSerializer(serializers.Serializer[Any]):
    """Allocated resources of a server."""

    cores = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    network_bps = serializers.IntegerField()
    storage_bytes = serializers.IntegerField()


class ReadingSerializer(serializers.Serializer[Any]):
    """The last report of a server; shares 0-1."""

    at = serializers.DateTimeField()
    cluster_seconds = serializers.FloatField()
    cpu_share = serializers.FloatField()
    memory_share = serializers.FloatField()
    network_share = serializers.FloatField()
    storage_share = serializers.FloatField()
    power_watts = serializers.FloatField()
    backend = serializers.CharField()


class ServerStatusSerializer(serializers.Serializer[Any]):
    """State of a server."""

    state = serializers.ChoiceField(choices=SERVER_STATES)
    allocated = UsedSerializer()
    reading = ReadingSerializer(allow_null=True)


class ServerSerializer(serializers.Serializer[Any]):
    """One machine."""

    metadata = ServerMetadataSerializer()
    spec = ServerSpecSerializer()
    status = ServerStatusSerializer()


class UnitSerializer(serializers.Serializer[Any]):
    """One core with an equal share of its server."""

    id = serializers.IntegerField()
    server = serializers.CharField()
    core = serializers.IntegerField()
    allocation = serializers.IntegerField(
        allow_null=True, help_text="The allocation that holds it."
    )
    version = serializers.IntegerField()


class ClockSerializer(serializers.Serializer[Any]):
    """Cluster time."""

    now_s = serializers.FloatField(help_text="Cluster seconds since the cluster's first start.")
    speed = serializers.FloatField(help_text="Cluster seconds per wall second; 0 = stopped.")
    wall = serializers.DateTimeField()


class ClusterSerializer(serializers.Serializer[Any]):
    """The cluster as a whole."""

    name = serializers.CharField()
    policy = serializers.CharField()
    clock = ClockSerializer()
    servers = serializers.DictField(child=serializers.IntegerField(), help_text="By state.")
    units = serializers.IntegerField()
    units_allocated = serializers.IntegerField()
    cpu_share = serializers.FloatField(
        allow_null=True, help_text="Cores in use over cores, of the servers that report; 0-1."
    )
    power_watts = serializers.FloatField()


class MapSerializer(serializers.Serializer[Any]):
    """One number per server, packed."""

    layer = serializers.CharField()
    description = serializers.CharField()
    encoding = serializers.CharField(help_text="base64 of one byte per server; 255 = not known.")
    scale = serializers.FloatField(help_text="Value = byte x scale.")
    servers = serializers.IntegerField()
    ids = serializers.ListField(child=serializers.IntegerField())
    values = serializers.CharField()


def represent_platform(platform: Platform) -> dict[str, Any]:
    """JSON of a platform annotated with ``n_servers``, ``n_units``, ``n_used``."""
    return {
        "metadata": {"id": platform.pk, "name": platform.name},
        "spec": {
            "cores": platform.cores,
            "memory_bytes": platform.memory_bytes,
            "network_bps": platform.network_bps,
            "storage_bytes": platform.storage_bytes,
            "idle_watts": platform.idle_watts,
            "peak_watts": platform.peak_watts,
            "rank": platform.rank,
        },
        "status": {
            "servers": platform.n_servers,  # type: ignore[attr-defined]  # annotated
            "units": platform.n_units,  # type: ignore[attr-defined]  # annotated
            "units_allocated": platform.n_used,  # type: ignore[attr-defined]  # annotated
        },
    }


def represent_server(server: Server) -> dict[str, Any]:
    """JSON of a server whose platform, rack and reading are loaded."""
    reading: ServerReading | None = getattr(server, "reading", None)
    return {
        "metadata": {
            "id": server.pk,
            "name": server.name,
            "labels": server.labels,
            "generation": server.generation,
            "etag": f'"g{server.generation}"',
            "updated_at": time(server.updated_at),
        },
        "spec": {
            "platform": server.platform.name,
            "rack": server.rack.name,
            "switch": server.rack.switch,
            "cores": server.cores,
            "memory_bytes": server.memory_bytes,
            "network_bps": server.network_bps,
            "storage_bytes": server.storage_bytes,
            "idle_watts": server.idle_watts,
            "peak_watts": server.peak_watts,
            "oversubscription": server.oversubscription,
            "l3_groups": server.l3_groups,
        },
        "status": {
            "state": str(server.state),
            "allocated": {
                "cores": server.used_cores,
                "memory_bytes": server.used_memory_bytes,
                "network_bps": server.used_network_bps,
                "storage_bytes": server.used_storage_bytes,
            },
            "reading": _reading(reading) if reading else None,
        },
    }


def _reading(reading: ServerReading) -> dict[str, Any]:
    return {
        "at": time(reading.at),
        "cluster_seconds": reading.cluster_s,
        "cpu_share": reading.cpu_share,
        "memory_share": reading.memory_share,
        "network_share": reading.network_share,
        "storage_share": reading.storage_share,
        "power_watts": reading.watts,
        "backend": reading.backend,
    }


def represent_unit(unit: ResourceUnit) -> dict[str, Any]:
    """JSON of a unit whose server is loaded."""
    return {
        "id": unit.pk,
        "server": unit.server.name,
        "core": unit.core,
        "allocation": unit.allocation_id,
        "version": unit.version,
    }


def represent_clock(now_s: float, speed: float, wall: datetime) -> dict[str, Any]:
    """JSON of the cluster's clock."""
    return {"now_s": now_s, "speed": speed, "wall": time(wall)}
