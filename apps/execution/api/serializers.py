"""What running jobs report, as the API shows it."""

from typing import Any

from rest_framework import serializers

from apps.execution.models import JobSample
from apps.workloads.core.waves import TaskCounts


class JobSampleSerializer(serializers.Serializer[Any]):
    """One report of a running job."""

    cluster_seconds = serializers.FloatField()
    progress = serializers.FloatField(help_text="Share of the work done, 0-1.")
    performance = serializers.FloatField(help_text="In the target's unit.")
    attainment = serializers.FloatField(allow_null=True, help_text="Performance over target.")
    cpu_share = serializers.FloatField(help_text="Of the cores it holds, 0-1.")


class TasksSerializer(serializers.Serializer[Any]):
    """The tasks of a job, which run in waves on its units."""

    total = serializers.IntegerField()
    done = serializers.IntegerField()
    running = serializers.IntegerField()
    waiting = serializers.IntegerField()
    waves_left = serializers.IntegerField(allow_null=True, help_text="Null before it has units.")


def represent_sample(sample: JobSample) -> dict[str, Any]:
    """JSON of a report."""
    return {
        "cluster_seconds": sample.cluster_s,
        "progress": sample.progress,
        "performance": sample.performance,
        "attainment": sample.attainment,
        "cpu_share": sample.cpu_share,
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
