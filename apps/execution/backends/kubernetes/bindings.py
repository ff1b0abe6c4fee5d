"""Bindings of pods that Berth has placed: room on the node, one attempt at a time, back-off."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from apps.execution.backends.kubernetes.cluster import (
    BoundError,
    Cluster,
    ForbiddenError,
    KubernetesAwayError,
    Note,
    PodGoneError,
)
from apps.execution.core.kubernetes.backoff import delay_s
from apps.execution.core.kubernetes.mirror import ExpiredError
from apps.execution.core.kubernetes.room import EMPTY, left_of, requested, shortage
from apps.execution.core.kubernetes.values import Node, Phase, Pod, Resources

ASSUMED_S: Final = 10.0  # until the watch must show a binding
THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pod and the node that Berth has chosen."""

    pod: Pod
    node: str


@dataclass
class Bindings:
    """What this process has asked the API server for, and not seen yet.

    All of it may be lost: the API server refuses to bind a pod twice.

    Attributes
    ----------
    crowded : nodes on which a pod did not fit
    notes : events to write
    """

    cluster: Cluster
    rng: np.random.Generator
    crowded: set[str] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)
    _bound: dict[str, tuple[str, Resources, float]] = field(default_factory=dict)
    _retries: dict[str, tuple[int, float]] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, "kubernetes")
    )

    def see(self, pods: Mapping[str, Pod], wall_s: float) -> None:
        """Forget the bindings that the watch has shown, and pods that are gone."""
        self._bound = {
            uid: bound
            for uid, bound in self._bound.items()
            if uid in pods and pods[uid].phase is Phase.PENDING and wall_s < bound[2] + ASSUMED_S
        }
        for uid in [uid for uid in self._retries if uid not in pods or pods[uid].node]:
            del self._retries[uid]

    def left(self, nodes: Iterable[Node], pods: Mapping[str, Pod]) -> dict[str, Resources]:
        """Return what is left of each node, without what was bound a moment ago."""
        taken = requested(pods.values(), lambda _pod: True)
        for node, amount, _ in self._bound.values():
            taken[node] = taken.get(node, EMPTY) + amount
        return {node.name: left_of(node, taken) for node in nodes}

    def bind(self, wanted: Iterable[Wanted], left: dict[str, Resources], wall_s: float) -> None:
        """Bind the pods that fit; the nodes of the others become crowded."""
        ready = []
        for each in wanted:
            uid = each.pod.uid
            if uid in self._bound or wall_s < self._retries.get(uid, (0, 0.0))[1]:
                continue
            short = self._short(each, left)
            if short:
                self._refuse(each, short)
                continue
            left[each.node] = _less(left[each.node], each.pod.requests)
            self._bound[uid] = (each.node, each.pod.requests, wall_s)
            ready.append(each)
        for each, error in zip(ready, self._pool.map(self._try, ready), strict=True):
            self._judge(each, error, wall_s)

    def _short(self, each: Wanted, left: Mapping[str, Resources]) -> str:
        room = left.get(each.node)
        if room is None:
            return "Kubernetes has no such node"
        return shortage(each.pod, room)

    def _refuse(self, each: Wanted, short: str) -> None:
        """Close a node that lacks room: its server drains, so the pod is placed on another one."""
        self.crowded.add(each.node)
        text = f"{each.node} is used by pods that Berth does not place: {short}"
        self.notes.append(Note(each.pod, "NoRoom", text, is_warning=True))

    def _try(self, each: Wanted) -> Exception | None:
        """Bind one pod, in a thread of the pool; returns what went wrong."""
        try:
            self.cluster.bind(each.pod, each.node)
        except (
            BoundError,
            ExpiredError,
            ForbiddenError,
            KubernetesAwayError,
            PodGoneError,
        ) as error:
            return error
        return None

    def _judge(self, each: Wanted, error: Exception | None, wall_s: float) -> None:
        """Draw the consequence of one attempt."""
        uid = each.pod.uid
        if error is None:
            self._retries.pop(uid, None)
            text = f"Berth has bound {each.pod.path} to {each.node}"
            self.notes.append(Note(each.pod, "Scheduled", text))
            return
        if isinstance(error, BoundError | PodGoneError):
            # the watch shows where it runs, or that it is gone; until then, no second attempt
            return
        del self._bound[uid]
        failures = self._retries.get(uid, (0, 0.0))[0] + 1
        self._retries[uid] = (failures, wall_s + delay_s(failures, self.rng))
        self.notes.append(Note(each.pod, "BindingFailed", str(error), is_warning=True))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _less(room: Resources, used: Resources) -> Resources:
    return replace(
        room,
        cpu_millis=room.cpu_millis - used.cpu_millis,
        memory_bytes=room.memory_bytes - used.memory_bytes,
        pods=room.pods - used.pods,
    )
