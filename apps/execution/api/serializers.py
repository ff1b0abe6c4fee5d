"""Reports of running jobs, their migrations and tasks in the API."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.common.api.representations import time
from apps.execution.models import JobSample, Migration, MigrationState
from apps.workloads.core.waves import TaskCounts


class JobSampleSerializer(serializers.Serializer[Any]):
    """One report of a running job."""

    cluster_seconds = serializers.FloatField()
    progress = serializers.FloatField(
        allow_null=True, help_text="Share of the work done, 0-1; null if a command reports none."
    )
    performance = serializers.FloatField(allow_null=True, help_text="In the target's unit.")
    attainment = serializers.FloatField(allow_null=True, help_text="Performance over target.")
    cpu_share = serializers.FloatField(help_text="Share of its cores, 0-1.")
    offered_queries_per_second = serializers.FloatField(
        allow_null=True, help_text="Of a service; null for other jobs."
    )
    served_queries_per_second = serializers.FloatField(allow_null=True)
    memory_rate = serializers.FloatField(
        allow_null=True, help_text="Off-chip memory requests/s and unit."
    )
    network_wait = serializers.FloatField(
        allow_null=True,
        help_text="Share of time a server full of such units would wait for packets, 0-1.",
    )
    disk_wait = serializers.FloatField(
        allow_null=True,
        help_text="Share of time a server full of such units would wait for the disk, 0-1.",
    )
    traffic_bps = serializers.FloatField(
        allow_null=True, help_text="Bits/s and unit exchanged between the job's containers."
    )
    run_wait = serializers.FloatField(
        allow_null=True, help_text="Share of the time of its threads spent waiting for a core."
    )
    blocked = serializers.FloatField(
        allow_null=True, help_text="Share spent asleep: for a disk, the network, a lock, a timer."
    )
    memory_bytes = serializers.IntegerField(allow_null=True)
    cpu_pressure = serializers.FloatField(
        allow_null=True,
        help_text="Share of time in which a process of its control group, or else of the machine,"
        " waited for a core.",
    )
    memory_pressure = serializers.FloatField(allow_null=True)
    io_pressure = serializers.FloatField(allow_null=True)
    readings = serializers.IntegerField(
        help_text="Reports that this is the mean of: 1, or those of a minute or an hour."
    )
    attainment_min = serializers.FloatField(
        allow_null=True, help_text="Lowest attainment of these reports; null if it is one."
    )
    attainment_max = serializers.FloatField(allow_null=True)


class MigrationSerializer(serializers.Serializer[Any]):
    """A migration of units of a job from one server to another."""

    id = serializers.IntegerField()
    state = serializers.ChoiceField(choices=MigrationState.values)
    from_server = serializers.CharField(
        allow_null=True, help_text="Null if the server was removed."
    )
    from_server_id = serializers.IntegerField()
    to_server = serializers.CharField(allow_null=True)
    to_server_id = serializers.IntegerField()
    units = serializers.IntegerField()
    reason_code = serializers.CharField(help_text="Reason of the migration.")
    message = serializers.CharField(
        allow_blank=True, help_text="Why the migration failed or was cancelled."
    )
    cancel_requested = serializers.BooleanField(
        help_text="Cancelled after it had started: it continues, but is not restarted."
    )
    predicted_seconds = serializers.FloatField(help_text="Predicted duration in cluster seconds.")
    requested_seconds = serializers.FloatField()
    started_seconds = serializers.FloatField(allow_null=True)
    ended_seconds = serializers.FloatField(allow_null=True)
    created_at = serializers.DateTimeField()


class TasksSerializer(serializers.Serializer[Any]):
    """The tasks of a job, which run in waves on its units."""

    total = serializers.IntegerField()
    done = serializers.IntegerField()
    running = serializers.IntegerField()
    waiting = serializers.IntegerField()
    waves_left = serializers.IntegerField(
        allow_null=True, help_text="Null if the job has no units."
    )


def represent_sample(sample: JobSample) -> dict[str, Any]:
    """JSON of a report."""
    return {
        "cluster_seconds": sample.cluster_s,
        "progress": sample.progress,
        "performance": sample.performance,
        "attainment": sample.attainment,
        "cpu_share": sample.cpu_share,
        "offered_queries_per_second": sample.offered_qps,
        "served_queries_per_second": sample.served_qps,
        "memory_rate": sample.memory_rate,
        "network_wait": sample.network_wait,
        "disk_wait": sample.disk_wait,
        "traffic_bps": sample.traffic_bps,
        "run_wait": sample.run_wait,
        "blocked": sample.blocked,
        "memory_bytes": sample.memory_bytes,
        "cpu_pressure": sample.cpu_pressure,
        "memory_pressure": sample.memory_pressure,
        "io_pressure": sample.io_pressure,
        "readings": sample.readings,
        "attainment_min": sample.attainment_min,
        "attainment_max": sample.attainment_max,
    }


def represent_migration(migration: Migration, names: Mapping[int, str]) -> dict[str, Any]:
    """JSON of a migration, with the names of servers by id."""
    return {
        "id": migration.id,
        "state": migration.state,
        "from_server": names.get(migration.from_server_id),
        "from_server_id": migration.from_server_id,
        "to_server": names.get(migration.to_server_id),
        "to_server_id": migration.to_server_id,
        "units": migration.units,
        "reason_code": migration.reason_code,
        "message": migration.message,
        "cancel_requested": migration.cancel_requested,
        "predicted_seconds": migration.predicted_s,
        "requested_seconds": migration.requested_s,
        "started_seconds": migration.started_s,
        "ended_seconds": migration.ended_s,
        "created_at": time(migration.created_at),
    }


def represent_tasks(counts: TaskCounts) -> dict[str, Any]:
    """JSON of task counts."""
    return {
        "total": counts.total,
        "done": counts.done,
        "running": counts.running,
        "waiting": counts.waiting,
        "waves_left": counts.waves_left,
    }
