"""The exchange with an extender of kube-scheduler (v1), and the verdict on the nodes it names.

Source: kubernetes/kubernetes ``staging/src/k8s.io/kube-scheduler/extender/v1/types.go``. Its
structs have no JSON tags: their keys are capitalised, those of pods and nodes inside are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.classification.core.profile import Profile
from apps.common.core.errors import ControlPlaneError
from apps.common.core.interference import SOURCES
from apps.execution.core.kubernetes.answers import AnswerError, read_pod
from apps.execution.core.kubernetes.jobs import units_of
from apps.execution.core.kubernetes.values import Pod
from apps.inventory.core.snapshot import Bools, Floats, Ints, Snapshot

MAX_SCORE: Final = 10  # MaxExtenderPriority
FULL: Final = 100.0  # points of tolerance of an idle server
MEMORY: Final = 0  # column of Snapshot.server_free


class ExchangeError(ControlPlaneError):
    """A body that kube-scheduler does not send; says what is missing."""


@dataclass(frozen=True, slots=True)
class Args:
    """ExtenderArgs.

    Attributes
    ----------
    names : of the nodes, in the order of the request
    nodes : the nodes themselves, where the scheduler sends them (nodeCacheCapable is false)
    """

    pod: Pod
    names: tuple[str, ...]
    nodes: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class BindingArgs:
    """ExtenderBindingArgs."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The servers as a verdict needs them.

    Attributes
    ----------
    index : of each server, by its name
    is_open : (S,) takes new work
    free, units : (S,) units that no job holds, and all
    memory : (S,) bytes that no job holds
    tolerance : (S, N) further pressure that every job of the server tolerates, at most 100
    """

    index: Mapping[str, int]
    is_open: Bools
    free: Ints
    units: Ints
    memory: Floats
    tolerance: Floats


@dataclass(frozen=True, slots=True)
class Verdict:
    """Judgement on the nodes of a request.

    Attributes
    ----------
    failed : why a pod should not run on a node, by node; the others pass
    scores : 0-10 of the nodes that pass
    """

    failed: Mapping[str, str]
    scores: Mapping[str, int]


def view_of(snapshot: Snapshot) -> View:
    """Return the view of a snapshot. O(U + S·N)."""
    topology = snapshot.topology
    servers = topology.server_id.size
    free = np.bincount(topology.unit_server[snapshot.unit_free], minlength=servers)
    return View(
        index={name: i for i, name in enumerate(topology.server_name)},
        is_open=snapshot.server_open.copy(),
        free=free.astype(np.int64),
        units=topology.server_units.astype(np.int64),
        memory=snapshot.server_free[:, MEMORY].copy(),
        tolerance=snapshot.server_tolerance.astype(np.float64),
    )


def read_args(data: object) -> Args:
    """Return the arguments of filter and prioritize.

    Raises
    ------
    ExchangeError : they are malformed.
    """
    body = _object(data)
    pod = _pod(body.get("Pod"))
    if body.get("NodeNames") is not None:
        return Args(pod, tuple(str(name) for name in body["NodeNames"]), None)
    listed = body.get("Nodes")
    if not isinstance(listed, Mapping):
        raise ExchangeError("the request has neither NodeNames nor Nodes")
    nodes = list(listed.get("items") or ())
    try:
        return Args(pod, tuple(str(each["metadata"]["name"]) for each in nodes), nodes)
    except (KeyError, TypeError) as error:
        raise ExchangeError("a node of the request has no name") from error


def read_binding(data: object) -> BindingArgs:
    """Return the arguments of bind.

    Raises
    ------
    ExchangeError : they are malformed.
    """
    body = _object(data)
    fields = [body.get(name) for name in ("PodUID", "PodNamespace", "PodName", "Node")]
    if not all(isinstance(value, str) and value for value in fields):
        raise ExchangeError("bind needs PodName, PodNamespace, PodUID and Node")
    uid, namespace, name, node = (str(value) for value in fields)
    return BindingArgs(Pod(uid, namespace, name), node)


def _object(data: object) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ExchangeError("the request is no JSON object")
    return data


def _pod(data: object) -> Pod:
    """Return the pod of a request.

    Raises
    ------
    ExchangeError : it is missing or malformed.
    """
    if not isinstance(data, Mapping):
        raise ExchangeError("the request has no Pod")
    try:
        return read_pod(data)
    except AnswerError as error:
        raise ExchangeError(str(error)) from error


def judge(pod: Pod, names: Sequence[str], view: View, profile: Profile | None) -> Verdict:
    """Judge nodes for a pod. O(n·N) for n nodes.

    Nodes that are no servers of Berth pass with score 0: Berth knows nothing against them.

    Parameters
    ----------
    profile : of its application; None = not measured: it is taken to cause no interference
    """
    known = [name for name in names if name in view.index]
    at = np.array([view.index[name] for name in known], dtype=np.int64)
    caused = np.zeros(len(SOURCES)) if profile is None else profile.caused.value
    need = _Need(units_of(pod), pod.requests.memory_bytes, caused, is_measured=profile is not None)
    neighbours = np.maximum(view.units[at] - 1, 1)[:, np.newaxis]
    left = view.tolerance[at] - caused[np.newaxis, :] / neighbours
    least = left.min(axis=1)
    fails = (
        ~view.is_open[at]
        | (view.free[at] < need.units)
        | (view.memory[at] < need.memory_bytes)
        | (need.is_measured & (least < 0.0))
    )
    failed = {
        known[i]: _why_not(need, view, int(at[i]), left[i]) for i in np.flatnonzero(fails).tolist()
    }
    scores = dict.fromkeys(names, 0)
    scores |= dict(zip(known, _scores(need.units, view, at, least).tolist(), strict=True))
    return Verdict(failed, {name: n for name, n in scores.items() if name not in failed})


@dataclass(frozen=True, slots=True, eq=False)
class _Need:
    """The request of a pod, and the (N,) pressure that its application causes, if measured."""

    units: int
    memory_bytes: int
    caused: Floats
    is_measured: bool


def _why_not(need: _Need, view: View, server: int, left: Floats) -> str:
    """Return why a pod should not run on a server that fails it."""
    if not view.is_open[server]:
        return "Berth gives the node no new work"
    if view.free[server] < need.units:
        return f"Berth counts {view.free[server]} free units, and the pod needs {need.units}"
    if view.memory[server] < need.memory_bytes:
        return f"Berth counts {view.memory[server]:,.0f} free bytes of memory"
    source = SOURCES[int(left.argmin())]
    return f"interference: jobs on the node do not tolerate its use of {source}"


def _scores(need: int, view: View, at: Ints, least: Floats) -> Ints:
    """(servers,) 0-10: the share of units that stay free, times the share of tolerance left."""
    spare = np.maximum(view.units[at] - need, 1)
    free = np.maximum(view.free[at] - need, 0) / spare
    scores: Ints = np.rint(MAX_SCORE * free * np.clip(least / FULL, 0.0, 1.0)).astype(np.int64)
    return scores


def filter_result(args: Args, verdict: Verdict) -> dict[str, Any]:
    """Return an ExtenderFilterResult, with nodes in the form in which they came."""
    passed = [name for name in args.names if name not in verdict.failed]
    nodes = None
    if args.nodes is not None:
        kept = set(passed)
        items = [each for each in args.nodes if each["metadata"]["name"] in kept]
        nodes = {"metadata": {}, "items": items}
    return {
        "Nodes": nodes,
        "NodeNames": passed if args.nodes is None else None,
        "FailedNodes": dict(verdict.failed),
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def filter_error(text: str) -> dict[str, Any]:
    """Return an ExtenderFilterResult that says that Berth cannot judge."""
    return {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": text,
    }


def priorities(args: Args, verdict: Verdict) -> list[dict[str, Any]]:
    """Return a HostPriorityList of all nodes of the request; nodes that fail score 0."""
    return [{"Host": name, "Score": verdict.scores.get(name, 0)} for name in args.names]


def binding_result(error: str = "") -> dict[str, str]:
    """Return an ExtenderBindingResult."""
    return {"Error": error}
