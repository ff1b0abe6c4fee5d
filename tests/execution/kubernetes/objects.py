"""Nodes and pods in the form of the API."""

from typing import Any
from uuid import UUID

Json = dict[str, Any]


def a_node(name: str, cpu: str = "4", memory: str = "8Gi", **spec: Any) -> Json:
    labels = {
        "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", **spec.pop("labels", {}),
    }  # fmt: skip
    ready = spec.pop("ready", "True")
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def a_pod(name: str, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> Json:
    metadata = {
        "name": name,
        "namespace": spec.pop("namespace", "team-a"),
        "uid": spec.pop("uid", str(UUID(int=int.from_bytes(name.encode()[:15])))),
        "creationTimestamp": "2026-11-23T10:00:00Z",
        "labels": spec.pop("labels", {}),
        "annotations": spec.pop("annotations", {}),
    }
    if "owner" in spec:
        kind, owner = spec.pop("owner")
        metadata["ownerReferences"] = [{"kind": kind, "name": owner, "controller": True}]
    container = {
        "name": "main", "image": "example.org/work:1", "command": ["work"],
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }  # fmt: skip
    return {
        "metadata": metadata,
        "spec": {"schedulerName": "berth", "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def runs() -> Json:
    """Status of a pod that its kubelet has started."""
    state = {"running": {"startedAt": "2026-11-23T10:00:05Z"}}
    return {
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]}
    }


def ended(code: int, reason: str = "", phase: str = "") -> Json:
    """Status of a pod whose container has ended."""
    state = {
        "terminated": {
            "exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"),
            "startedAt": "2026-11-23T10:00:05Z", "finishedAt": "2026-11-23T10:01:05Z",
        }
    }  # fmt: skip
    return {
        "status": {
            "phase": phase or ("Failed" if code else "Succeeded"),
            "containerStatuses": [{"name": "main", "state": state}],
        }
    }
