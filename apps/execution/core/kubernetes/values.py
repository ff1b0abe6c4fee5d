"""Pods and nodes as the API server of Kubernetes describes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

MILLIS: Final = 1000  # of one core


class Phase(StrEnum):
    """State of a pod, as Berth distinguishes it."""

    PENDING = "pending"  # without a node
    BOUND = "bound"  # its node starts it
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Resources:
    """Requests of a pod, or what a node has for pods.

    Attributes
    ----------
    cpu_millis : thousandths of a core
    pods : number of pods: 1 of a pod
    others : names of further resources of which more than 0 is requested, such as nvidia.com/gpu
    """

    cpu_millis: int = 0
    memory_bytes: int = 0
    pods: int = 0
    others: tuple[str, ...] = ()

    def __add__(self, more: "Resources") -> "Resources":
        """Return the sum; names of other resources are kept once."""
        return Resources(
            self.cpu_millis + more.cpu_millis,
            self.memory_bytes + more.memory_bytes,
            self.pods + more.pods,
            tuple(sorted({*self.others, *more.others})),
        )

    def fits_into(self, room: "Resources") -> bool:
        """Tell whether CPU, memory and number of pods are at most those of ``room``."""
        return (
            self.cpu_millis <= room.cpu_millis
            and self.memory_bytes <= room.memory_bytes
            and self.pods <= room.pods
        )


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """One toleration of a pod; an empty key with operator Exists tolerates every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether a pod with this toleration may run on a node with the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended."""

    container: str
    code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod, such as a ReplicaSet or Job."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod.

    Attributes
    ----------
    status : its phase in Kubernetes, such as Running
    node : it is bound to; empty = none
    is_deleted : whether its deletion was requested
    is_gone : whether Kubernetes no longer has it: this is its last form
    is_gated : whether a scheduling gate holds it
    reason, message : why it has failed, such as Evicted
    disruption : reason of its condition DisruptionTarget, such as PreemptionByScheduler
    terms : its required node affinity, as in the API; empty = none
    constraints : parts of its spec that only Kubernetes' own scheduler evaluates
    exits : of its containers that have ended and were not started again
    created_s, started_s, ended_s : Unix seconds; None = not yet
    """

    uid: str
    namespace: str
    name: str
    scheduler: str = ""
    status: str = "Pending"
    node: str = ""
    is_deleted: bool = False
    is_gone: bool = False
    is_gated: bool = False
    reason: str = ""
    message: str = ""
    disruption: str = ""
    requests: Resources = field(default_factory=Resources)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[Mapping[str, Any], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    constraints: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    exits: tuple[Exit, ...] = ()
    created_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None

    @property
    def phase(self) -> Phase:
        """What its state means."""
        if self.status in ("Succeeded", "Failed"):
            return Phase.ENDED
        if not self.node:
            return Phase.PENDING
        # Unknown: its node is silent, and may run it
        return Phase.BOUND if self.status == "Pending" else Phase.RUNNING

    @property
    def path(self) -> str:
        """Namespace and name, as in messages."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes
    ----------
    room : what it has for pods (``status.allocatable``)
    is_ready : its condition Ready is True
    is_unschedulable : cordoned
    """

    name: str
    room: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_ready: bool = True
    is_unschedulable: bool = False
    storage_bytes: int = 0

    @property
    def blocking_taints(self) -> tuple[Taint, ...]:
        """Taints that keep pods away; those that follow from its condition are not among them."""
        return tuple(
            sorted(
                (
                    taint
                    for taint in self.taints
                    if taint.effect in ("NoSchedule", "NoExecute")
                    and not taint.key.startswith("node.kubernetes.io/")
                ),
                key=lambda taint: (taint.key, taint.value, taint.effect),
            )
        )

    @property
    def is_closed(self) -> bool:
        """Whether it keeps its pods and takes no new ones: cordoned, or under pressure."""
        return self.is_unschedulable or any(
            taint.key.startswith("node.kubernetes.io/")
            and taint.effect in ("NoSchedule", "NoExecute")
            for taint in self.taints
        )
