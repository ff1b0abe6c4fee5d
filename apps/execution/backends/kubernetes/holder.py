"""The process that reconciles Kubernetes with Berth many times a second.

It holds the lease of the backend (`services.backend_holders`), so it is the only one. Two watches
keep copies of all nodes and pods; everything else is read again in every tick, so it may die and
start at any moment. While the API server does not answer, nothing changes in Berth; while Berth is
down, bound pods keep running, and pods that name Berth as their scheduler wait.
"""

import logging
from collections import defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Final

import numpy as np

from apps.common.core.errors import ConflictError, ControlPlaneError, InvalidInputError
from apps.execution.backends.foreign_schedulers import Holder
from apps.execution.backends.kubernetes.bindings import Bindings, Wanted
from apps.execution.backends.kubernetes.cluster import Cluster, Note, PodGoneError
from apps.execution.backends.kubernetes.watcher import Watcher
from apps.execution.core.kubernetes.answers import read_node, read_pod
from apps.execution.core.kubernetes.backoff import LAST_S
from apps.execution.core.kubernetes.eligible import NODE_LABEL, Where, where
from apps.execution.core.kubernetes.jobs import is_followed, why_not
from apps.execution.core.kubernetes.mirror import Mirror
from apps.execution.core.kubernetes.reconcile import Step, Verb, end_of, steps
from apps.execution.core.kubernetes.room import is_open_again, requested
from apps.execution.core.kubernetes.values import Node, Phase, Pod, Resources
from apps.execution.selectors.kubernetes import KnownPod, known_pods, kubernetes_servers
from apps.execution.services import kubernetes as services
from apps.execution.services.launches import request_launches
from apps.inventory.core.backends import KUBERNETES

logger = logging.getLogger("berth.kubernetes")

NODES_S: Final = 2.0  # wall seconds between two comparisons of the nodes
RENEW_S: Final = 5.0
MAX_LAUNCHES: Final = 1000  # requested at a time
MAX_IMPORTS: Final = 50  # at a time, so that the first of many are placed early
AGAIN_S: Final = 15.0  # until a pod that could not be submitted is tried again
_ByVerb = Mapping[Verb, Mapping[str, Step]]


@dataclass(frozen=True, slots=True)
class Options:
    """How pods become jobs of Berth.

    Attributes
    ----------
    scheduler : ``schedulerName`` of the pods that Berth places
    project : of the namespaces that no project of Berth is named after
    """

    scheduler: str = "berth"
    project: str = "default"


@dataclass(frozen=True, slots=True)
class _Case:
    """One pod, as Kubernetes and as Berth know it."""

    pod: Pod | None
    known: KnownPod | None


@dataclass
class KubernetesBackend:
    """Implements `backends.runner.Ticking`."""

    cluster: Cluster
    worker: str
    rng: np.random.Generator
    options: Options = field(default_factory=Options)
    _known: Mapping[str, KnownPod] = field(default_factory=dict)
    _refused: dict[str, tuple[Pod, float]] = field(default_factory=dict)
    _noted: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the copies of nodes and pods, and what keeps them up to date."""
        self._holder = Holder(KUBERNETES, self.worker, logger)
        seeds = self.rng.spawn(3)
        self.changed = Event()
        self.pods: Mirror[Pod] = Mirror(read_pod, lambda pod: pod.uid)
        self.nodes: Mirror[Node] = Mirror(read_node, lambda node: node.name)
        self.watchers = (
            Watcher(self.cluster.nodes(), self.nodes, seeds[0], self.changed),
            Watcher(self.cluster.pods(), self.pods, seeds[1], self.changed),
        )
        self.bindings = Bindings(self.cluster, seeds[2])

    def hold(self) -> None:
        """Become the process that runs this backend; raises what `Holder.hold` raises."""
        self._holder.hold()

    def start(self) -> None:
        """Start to follow nodes and pods."""
        for watcher in self.watchers:
            watcher.start()

    def stop(self) -> None:
        """End all threads."""
        for watcher in self.watchers:
            watcher.stop()
        self.bindings.close()

    @property
    def running(self) -> int:
        """Number of pods that Kubernetes runs for Berth."""
        return sum(each.known.is_running for each in self._known.values())

    def resume(self, wall_s: float) -> None:
        """Go on after the database was away; everything is read again in each tick."""

    def tick(self, wall_s: float) -> None:
        """Reconcile nodes and pods with Berth's rows."""
        if self._holder.is_due("renew", wall_s, RENEW_S):
            self._holder.renew(each.launch for each in self._known.values())
        if not (self.nodes.is_current and self.pods.is_current):
            return  # the watchers log why; without them, nothing is known to have changed
        nodes, (pods, unread) = self.nodes.items(), self.pods.items_and_unread()
        self.bindings.see(pods, wall_s)
        if self._holder.is_due("nodes", wall_s, NODES_S):
            self._sync_nodes(nodes, pods)
        request_launches(KUBERNETES, limit=MAX_LAUNCHES)
        self._known = known_pods()
        self._act(self._cases(pods, unread), nodes, pods, wall_s)
        self._write_notes()

    def _cases(self, pods: Mapping[str, Pod], unread: Container[str]) -> dict[str, _Case]:
        """Pair the pods that matter to Berth with its rows, without those that are unread."""
        deleted = self.pods.deleted()
        self.pods.forget(deleted.keys() - self._known.keys())
        cases = {
            uid: _Case(pod, self._known.get(uid))
            for uid, pod in pods.items()
            if uid in self._known or self._counts(pod)
        }
        for uid, known in self._known.items():
            last = deleted.get(uid)
            # a deleted pod may have the path of a later one that is unread
            if uid in cases or (last is None and known.path in unread):
                continue
            cases[uid] = _Case(None if last is None else replace(last, is_gone=True), known)
        return cases

    def _is_ours(self, pod: Pod) -> bool:
        return pod.scheduler == self.options.scheduler

    def _sync_nodes(self, nodes: Mapping[str, Node], pods: Mapping[str, Pod]) -> None:
        left = self.bindings.left(nodes.values(), pods)
        self.bindings.crowded = self._still_crowded(left, pods)
        foreign = requested(pods.values(), lambda pod: not self._counts(pod))
        refused = services.sync_nodes(list(nodes.values()), foreign, self.bindings.crowded)
        for name in nodes:
            self._holder.log_once(f"node {name}", refused.get(name, ""))
        self._prune(pods)

    def _counts(self, pod: Pod) -> bool:
        return self._is_ours(pod) or is_followed(pod)

    def _still_crowded(self, left: Mapping[str, Resources], pods: Mapping[str, Pod]) -> set[str]:
        """Return the crowded nodes on which a pod that Berth places now may still not fit."""
        if not self.bindings.crowded:
            return set()
        rows = kubernetes_servers()
        bound: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods.values():
            if pod.node and pod.phase is not Phase.ENDED and self._counts(pod):
                bound[pod.node].append(pod)
        return {
            name
            for name in self.bindings.crowded & rows.keys() & left.keys()
            if not is_open_again(
                left[name],
                bound[name],
                cores=rows[name].cores,
                memory_bytes=rows[name].memory_bytes,
            )
        }

    def _act(
        self,
        cases: Mapping[str, _Case],
        nodes: Mapping[str, Node],
        pods: Mapping[str, Pod],
        wall_s: float,
    ) -> None:
        """Do all steps: first what Kubernetes must do, so that a crash repeats them."""
        by_verb: dict[Verb, dict[str, Step]] = defaultdict(dict)
        for uid, case in sorted(cases.items()):
            ours = case.pod is not None and self._is_ours(case.pod)
            for step in steps(case.pod, case.known.known if case.known else None, is_ours=ours):
                by_verb[step.verb][uid] = step
        self._bind(by_verb, cases, nodes, pods, wall_s)
        for uid in by_verb[Verb.DELETE]:
            self._delete(cases[uid], wall_s)
        self._report(by_verb, cases)
        for uid, step in by_verb[Verb.LOST].items():
            self._holder.requeue(_launch(cases[uid]), step.text)
        for uid in by_verb[Verb.ENDED_UNPLACED]:
            self._end_unplaced(cases[uid])
        for uid, step in by_verb[Verb.PIN].items():
            self._pin(cases[uid], step.text)
        if by_verb[Verb.FORGET]:
            services.forget(by_verb[Verb.FORGET])
            self.pods.forget(by_verb[Verb.FORGET])
        self._import([cases[uid].pod for uid in by_verb[Verb.IMPORT]], nodes, wall_s)

    def _bind(
        self,
        by_verb: _ByVerb,
        cases: Mapping[str, _Case],
        nodes: Mapping[str, Node],
        pods: Mapping[str, Pod],
        wall_s: float,
    ) -> None:
        """Bind pods that Berth has placed."""
        crowded = set(self.bindings.crowded)
        wanted = [
            Wanted(pod, step.text)
            for uid, step in by_verb.get(Verb.BIND, {}).items()
            if (pod := cases[uid].pod) is not None and self._is_ours(pod)
        ]
        if wanted:
            self.bindings.bind(wanted, self.bindings.left(nodes.values(), pods), wall_s)
        if self.bindings.crowded - crowded:
            # their servers close before anything is placed there
            self._holder.postpone("nodes", 0.0)

    def _delete(self, case: _Case, wall_s: float) -> None:
        """Let Kubernetes stop a pod; it ends in Berth when it is gone."""
        if case.pod is None or not self._holder.is_due(f"delete {case.pod.uid}", wall_s, LAST_S):
            return
        try:
            self.cluster.delete(case.pod)
        except PodGoneError:
            return
        except ControlPlaneError as error:
            note = Note(case.pod, "CancellingFailed", str(error), is_warning=True)
            self.bindings.notes.append(note)

    def _report(self, by_verb: _ByVerb, cases: Mapping[str, _Case]) -> None:
        """Report starts, then ends; what has ended had started."""
        ended = {
            launch: (case.pod.ended_s if case.pod else None, end_of(case.pod))
            for uid in by_verb.get(Verb.ENDED, {})
            for case in [cases[uid]]
            if (launch := _launch(case)) is not None
        }
        started = {
            launch: case.pod.started_s if case.pod else None
            for uid in [*by_verb.get(Verb.STARTED, {}), *by_verb.get(Verb.ENDED, {})]
            for case in [cases[uid]]
            if (launch := _launch(case)) is not None
        }
        self._holder.report_started(started)
        self._holder.report_ended(ended)

    def _end_unplaced(self, case: _Case) -> None:
        if case.known is None:
            return
        known, end = case.known, end_of(case.pod)
        at_s = self._holder.cluster_s(case.pod.ended_s if case.pod else None)
        self._holder.write(lambda: services.end_unplaced(known.job, end, at_s=at_s))

    def _pin(self, case: _Case, node: str) -> None:
        if case.known is not None:
            known, there = case.known, Where((), {NODE_LABEL: node})
            self._holder.write(lambda: services.pin(known.uid, known.job, there, node))

    def _import(self, found: list[Pod | None], nodes: Mapping[str, Node], wall_s: float) -> None:
        """Submit new pods to Berth; an event on the pod says what is wrong with it."""
        new = [pod for pod in found if pod is not None and not self._was_refused(pod, wall_s)]
        for pod in new[:MAX_IMPORTS]:
            place = self._where(pod, nodes)
            why = place if isinstance(place, str) else self._submit(pod, place)
            if why:
                self._refused[pod.uid] = (pod, wall_s + AGAIN_S)
                self.bindings.notes.append(Note(pod, "NotAccepted", why, is_warning=True))

    def _was_refused(self, pod: Pod, wall_s: float) -> bool:
        before, until_s = self._refused.get(pod.uid, (None, 0.0))
        return before == pod and wall_s < until_s

    def _where(self, pod: Pod, nodes: Mapping[str, Node]) -> Where | str:
        """Return where a new pod may be placed, or why nowhere; a bound one, where it is."""
        if pod.node:
            return Where((), {NODE_LABEL: pod.node})
        return why_not(pod) or where(pod, nodes.values())

    def _submit(self, pod: Pod, place: Where) -> str:
        """Submit one pod; returns why Berth does not accept it, or an empty text."""
        try:
            self._holder.write(
                lambda: services.import_pod(pod, place, default_project=self.options.project)
            )
        except (ConflictError, InvalidInputError) as error:
            return str(error)
        self._refused.pop(pod.uid, None)
        return ""

    def _write_notes(self) -> None:
        """Write the events that are new; one that cannot be written stops nothing."""
        notes, self.bindings.notes = self.bindings.notes, []
        for note in notes:
            key = (note.pod.uid, note.reason)
            if self._noted.get(key) == note.message:
                continue
            self._noted[key] = note.message
            try:
                self.cluster.write(note)
            except PodGoneError:
                continue
            except ControlPlaneError as error:
                self._holder.log_once("events", str(error))

    def _prune(self, pods: Mapping[str, Pod]) -> None:
        """Forget what was said about pods that no longer exist."""
        self._noted = {key: text for key, text in self._noted.items() if key[0] in pods}
        self._refused = {uid: kept for uid, kept in self._refused.items() if uid in pods}
        self._holder.forget(lambda what: what.startswith("delete ") and what[7:] not in pods)
        unread = self.pods.unread
        self._holder.forget(lambda what: what.startswith("pod ") and what[4:] not in unread)
        for path, why in unread.items():
            self._holder.log_once(f"pod {path}", why)


def _launch(case: _Case) -> int | None:
    return None if case.known is None else case.known.launch
