"""JSON of jobs, batches and applications, as described in `serializers`."""

from typing import Any, Final

from apps.common.api.representations import time
from apps.workloads.core.conditions import Condition, JobStatus, conditions
from apps.workloads.core.lifecycle import ACTIVE_STATES
from apps.workloads.core.reasons import MEANINGS, Reason
from apps.workloads.models import Application, Batch, Job

NO_PROGRAM: Final[dict[str, Any]] = {
    "command": None,
    "environment": {},
    "working_directory": None,
    "user": None,
    "copyable": False,
    "progress_command": None,
    "progress_every_seconds": None,
}


def represent_job(job: Job) -> dict[str, Any]:
    """JSON of a job whose application, project and creator are loaded."""
    return {
        "metadata": {
            "id": str(job.pk),
            "name": job.name,
            "project": job.project.name,
            "labels": job.labels,
            "annotations": job.annotations,
            "generation": job.generation,
            "etag": f'"g{job.generation}"',
            "created_at": time(job.created_at),
            "updated_at": time(job.updated_at),
            "created_by": job.created_by.username,
            "batch": str(job.batch_id) if job.batch_id else None,
            "array": _array_of(job),
            "request_id": job.correlation_id,
        },
        "spec": _spec(job),
        "status": _status(job),
    }


def _array_of(job: Job) -> dict[str, Any] | None:
    if job.array_index is None:
        return None
    return {"id": str(job.batch_id), "index": job.array_index}


def represent_job_briefly(job: Job) -> dict[str, Any]:
    """JSON that identifies a job."""
    return {"id": str(job.pk), "name": job.name, "state": str(job.state)}


def _spec(job: Job) -> dict[str, Any]:
    return {
        "application": job.application.name,
        "application_kind": job.application.kind,
        "target": job.target,
        "input_bytes": job.input_bytes,
        "tasks": job.tasks_total,
        "units": job.units_requested,
        "duration_seconds": job.duration_s,
        "priority": job.priority,
        "gang": job.gang,
        "policy": job.policy or None,
        "sample_size": job.sample_size,
        "guarantee": job.guarantee,
        "held": job.held,
        "constraints": job.constraints,
        "unit_memory_bytes": job.unit_memory_bytes,
        "unit_network_bps": job.unit_network_bps,
        "unit_storage_bytes": job.unit_storage_bytes,
        **_program(job.program or {}),
        "files": job.files_id,
    }


def _program(stored: dict[str, Any]) -> dict[str, Any]:
    return {name: stored.get(name, none) for name, none in NO_PROGRAM.items()}


def _status(job: Job) -> dict[str, Any]:
    return {
        "state": str(job.state),
        "held": job.held,
        "cancel_requested": job.cancel_requested,
        "suspension": job.suspension or None,
        "reason": represent_reason(job),
        "conditions": [_condition(c, job.generation) for c in conditions(_facts(job))],
        "units": job.units,
        "units_missing": job.units_missing if job.state in ACTIVE_STATES else 0,
        "attempts": job.attempts,
        "progress": job.progress,
        "performance": job.performance,
        "attainment": job.attainment,
        "predicted": job.predicted,
        "exit_code": job.exit_code,
        "times": {
            "submitted_seconds": job.submitted_s,
            "profiled_seconds": job.profiled_s,
            "queued_seconds": job.queued_s,
            "placed_seconds": job.placed_s,
            "started_seconds": job.started_s,
            "finished_seconds": job.finished_s,
            "placed_at": time(job.placed_at),
            "finished_at": time(job.finished_at),
        },
    }


def _facts(job: Job) -> JobStatus:
    return JobStatus(
        state=job.state,
        held=job.held,
        reason=job.reason_code,
        message=job.reason_message,
        attainment=job.attainment,
        submitted_s=job.submitted_s,
        queued_s=job.queued_s,
        placed_s=job.placed_s,
        started_s=job.started_s,
        finished_s=job.finished_s,
    )


def _condition(condition: Condition, generation: int) -> dict[str, Any]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "cluster_seconds": condition.cluster_s,
        "observed_generation": generation,
    }


def represent_reason(job: Job) -> dict[str, Any] | None:
    """JSON of a job's reason; None if it has none."""
    if not job.reason_code:
        return None
    meaning = MEANINGS[Reason(job.reason_code)]
    return {
        "code": job.reason_code,
        "tier": meaning.tier,
        "sentence": meaning.sentence,
        "next_action": meaning.next_action,
        "message": job.reason_message,
        "also": list(job.reason_also),
    }


def represent_batch(batch: Batch) -> dict[str, Any]:
    """JSON of a batch without its items."""
    return {
        "id": str(batch.pk),
        "project": batch.project.name,
        "created_by": batch.created_by.username,
        "created_at": time(batch.created_at),
        "mode": batch.mode,
        "total": batch.total,
        "accepted": batch.accepted,
        "rejected": batch.total - batch.accepted,
    }


def represent_array(array: Batch) -> dict[str, Any]:
    """JSON of a job array without its members."""
    return {
        "id": str(array.pk),
        "name": array.name,
        "project": array.project.name,
        "created_by": array.created_by.username,
        "created_at": time(array.created_at),
        "size": array.total,
        "indexes": array.array_indexes,
        "limit": array.array_limit,
    }


def represent_application(application: Application) -> dict[str, Any]:
    """JSON of an application."""
    return {
        "id": str(application.pk),
        "name": application.name,
        "kind": application.kind,
        "description": application.description,
        "labels": application.labels,
        "generation": application.generation,
        "created_at": time(application.created_at),
        "updated_at": time(application.updated_at),
    }
