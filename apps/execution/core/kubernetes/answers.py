"""JSON of the API server as pods and nodes (API version v1)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from apps.common.core.errors import ControlPlaneError
from apps.execution.core.kubernetes.quantities import read_millis, read_whole
from apps.execution.core.kubernetes.values import (
    Exit,
    Node,
    Owner,
    Pod,
    Resources,
    Taint,
    Toleration,
)

Json = Mapping[str, Any]  # Any: JSON of another program
_CORE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_LONGEST_COMMAND: Final = 20  # strings that the pages show


class AnswerError(ControlPlaneError):
    """The API server answered something else than was asked for; names the object and field."""


def read_pod(data: Json) -> Pod:
    """Return one pod.

    Raises
    ------
    AnswerError : a field is missing or malformed.
    """
    try:
        return _pod(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnswerError(f"the pod {_name_of(data)}: {error!r:.200}") from error


def read_node(data: Json) -> Node:
    """Return one node.

    Raises
    ------
    AnswerError : a field is missing or malformed.
    """
    try:
        return _node(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnswerError(f"the node {_name_of(data)}: {error!r:.200}") from error


def _name_of(data: object) -> str:
    metadata = data.get("metadata") if isinstance(data, Mapping) else None
    return str(metadata.get("name", "without a name")) if isinstance(metadata, Mapping) else "?"


def _pod(data: Json) -> Pod:
    metadata, spec, status = data["metadata"], data["spec"], data.get("status") or {}
    exits = _exits(status)
    return Pod(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        scheduler=spec.get("schedulerName") or "",
        status=status.get("phase") or "Pending",
        node=spec.get("nodeName") or "",
        is_deleted=bool(metadata.get("deletionTimestamp")),
        is_gated=bool(spec.get("schedulingGates")),
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        disruption=_disruption(status),
        requests=requests_of(spec),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        owner=_owner(metadata),
        selector=spec.get("nodeSelector") or {},
        terms=_terms(spec),
        tolerations=tuple(_toleration(each) for each in spec.get("tolerations") or ()),
        constraints=_constraints(spec),
        command=_command(spec),
        exits=tuple(each for each, _ in exits),
        created_s=_unix_s(metadata.get("creationTimestamp")),
        started_s=_started_s(status),
        ended_s=max((ended for _, ended in exits if ended is not None), default=None),
    )


def requests_of(spec: Json) -> Resources:
    """Return what the scheduler of Kubernetes reserves for a pod.

    The containers run together, and with them the init containers that restart always; the other
    init containers run before them, one by one.

    Raises
    ------
    ValueError : a quantity is malformed.
    """
    running = _sum(_requests(each) for each in spec["containers"])
    before = Resources()
    peak = Resources()
    for each in spec.get("initContainers") or ():
        if each.get("restartPolicy") == "Always":
            before += _requests(each)
            peak = _largest(peak, before)
        else:
            peak = _largest(peak, before + _requests(each))
    return _largest(running + before, peak) + _amounts(spec.get("overhead")) + Resources(pods=1)


def _requests(container: Json) -> Resources:
    """Return the requests of a container; its limits, where it requests nothing."""
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(amounts: Json | None) -> Resources:
    named = amounts or {}
    return Resources(
        cpu_millis=read_millis(named.get("cpu", 0)),
        memory_bytes=read_whole(named.get("memory", 0)),
        others=tuple(
            sorted(name for name, n in named.items() if name not in _CORE and read_whole(n) > 0)
        ),
    )


def _sum(amounts: Iterable[Resources]) -> Resources:
    total = Resources()
    for each in amounts:
        total += each
    return total


def _largest(one: Resources, other: Resources) -> Resources:
    return Resources(
        max(one.cpu_millis, other.cpu_millis),
        max(one.memory_bytes, other.memory_bytes),
        max(one.pods, other.pods),
        tuple(sorted({*one.others, *other.others})),
    )


def _owner(metadata: Json) -> Owner | None:
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller"):
            return Owner(each["kind"], each["name"])
    return None


def _disruption(status: Json) -> str:
    for each in status.get("conditions") or ():
        if each.get("type") == "DisruptionTarget" and each.get("status") == "True":
            return str(each.get("reason") or "DisruptionTarget")
    return ""


def _terms(spec: Json) -> tuple[Json, ...]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return tuple(required.get("nodeSelectorTerms") or ())


def _toleration(data: Json) -> Toleration:
    return Toleration(
        data.get("key") or "",
        data.get("operator") or "Equal",
        data.get("value") or "",
        data.get("effect") or "",
    )


def _constraints(spec: Json) -> tuple[str, ...]:
    """Return the parts of a spec that Berth does not evaluate, in words."""
    affinity = spec.get("affinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    found = {
        "pod affinity": (affinity.get("podAffinity") or {}).get(required),
        "pod anti-affinity": (affinity.get("podAntiAffinity") or {}).get(required),
        "topology spread constraints": [
            each
            for each in spec.get("topologySpreadConstraints") or ()
            if each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        ],
        "persistent volume claims": [
            each
            for each in spec.get("volumes") or ()
            if "persistentVolumeClaim" in each or "ephemeral" in each
        ],
        "host ports": [
            port for each in containers for port in each.get("ports") or () if port.get("hostPort")
        ],
        "resource claims": spec.get("resourceClaims"),
    }
    return tuple(name for name, value in found.items() if value)


def _command(spec: Json) -> tuple[str, ...]:
    """Return what the first container runs: its command and arguments, else its image."""
    first = spec["containers"][0]
    words = [*(first.get("command") or ()), *(first.get("args") or ())]
    return tuple(str(word)[:1000] for word in words[:_LONGEST_COMMAND]) or (
        str(first.get("image") or first["name"]),
    )


def _exits(status: Json) -> list[tuple[Exit, float | None]]:
    found = []
    for each in status.get("containerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated")
        if ended:
            how = Exit(each["name"], int(ended.get("exitCode", 0)), ended.get("reason") or "")
            found.append((how, _unix_s(ended.get("finishedAt"))))
    return found


def _started_s(status: Json) -> float | None:
    """Return when the first container started; its images are there by then."""
    times = []
    for each in status.get("containerStatuses") or ():
        state = each.get("state") or {}
        for name in ("running", "terminated"):
            at = _unix_s((state.get(name) or {}).get("startedAt"))
            if at is not None:
                times.append(at)
    return min(times, default=None)


def _unix_s(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()


def _node(data: Json) -> Node:
    metadata, spec, status = data["metadata"], data.get("spec") or {}, data["status"]
    allocatable = status["allocatable"]
    return Node(
        name=metadata["name"],
        room=Resources(
            read_millis(allocatable["cpu"]),
            read_whole(allocatable["memory"]),
            read_whole(allocatable.get("pods", 110)),
        ),
        labels=metadata.get("labels") or {},
        taints=tuple(
            Taint(each["key"], each.get("value") or "", each["effect"])
            for each in spec.get("taints") or ()
        ),
        is_ready=any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in status.get("conditions") or ()
        ),
        is_unschedulable=bool(spec.get("unschedulable")),
        storage_bytes=read_whole(allocatable.get("ephemeral-storage", 0)),
    )
