"""Which nodes a pod may run on, and these nodes as platforms and labels of servers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from apps.execution.core.kubernetes.values import Node, Pod

NODE_LABEL: Final = "kubernetes-node"
MAX_PLATFORMS: Final = 200
_GIBIBYTE: Final = 2**30
_LONGEST: Final = 63


@dataclass(frozen=True, slots=True)
class Where:
    """Where a pod may run, in terms of servers: one of the platforms, with all of the labels."""

    platforms: tuple[str, ...]
    labels: Mapping[str, str]


def platform_of(node: Node) -> str:
    """Return the name of the platform of nodes with this processor, size and these taints."""
    cores = node.room.cpu_millis // 1000
    size = f"{cores}c-{max(1, round(node.room.memory_bytes / _GIBIBYTE))}g"
    kind = node.labels.get("node.kubernetes.io/instance-type", "")
    parts = ["kubernetes", kind or node.labels.get("kubernetes.io/arch", "node"), size]
    taints = "".join(f"{t.key}={t.value}:{t.effect};" for t in node.blocking_taints)
    if taints:
        parts.append("taints-" + sha256(taints.encode()).hexdigest()[:8])
    name = "-".join(parts)
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 9]}-{sha256(name.encode()).hexdigest()[:8]}"


def labels_of(node: Node) -> dict[str, str]:
    """Return the labels of a server: those of its node, and its name."""
    return {**node.labels, NODE_LABEL: node.name}


def is_eligible(pod: Pod, node: Node) -> bool:
    """Tell whether Kubernetes lets a pod run on a node, whatever the node's state and load."""
    return (
        all(node.labels.get(name) == value for name, value in pod.selector.items())
        and all(
            any(each.tolerates(taint) for each in pod.tolerations)
            for taint in node.blocking_taints
        )
        and (not pod.terms or any(_matches(term, node) for term in pod.terms))
    )


def where(pod: Pod, nodes: Collection[Node]) -> Where | str:
    """Return where a pod may run; a text says why no placement of Berth can express it.

    Platforms and labels describe the eligible nodes exactly, or the answer is a text: a node that
    is not eligible would be refused by its kubelet.
    """
    fitting = [node for node in nodes if is_eligible(pod, node)]
    if not fitting:
        return "no node has the labels and taints that its selector, affinity and tolerations name"
    if len(fitting) == 1:
        return Where((), {NODE_LABEL: fitting[0].name})
    platforms = tuple(sorted({platform_of(node) for node in fitting}))
    described = [
        node
        for node in nodes
        if platform_of(node) in platforms
        and all(node.labels.get(name) == value for name, value in pod.selector.items())
    ]
    if len(described) > len(fitting):
        return (
            "its node affinity divides nodes of one platform; use nodeSelector, which names labels"
        )
    return Where(platforms, dict(pod.selector))


def _matches(term: Mapping[str, Any], node: Node) -> bool:
    """Tell whether a node matches all expressions of a term; a term without any matches none."""
    expressions = list(term.get("matchExpressions") or ())
    fields = list(term.get("matchFields") or ())
    if not expressions and not fields:
        return False
    names = {"metadata.name": node.name}
    return all(_holds(each, node.labels) for each in expressions) and all(
        _holds(each, names) for each in fields
    )


def _holds(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """Evaluate one expression; an unknown operator holds nowhere."""
    found, operator = values.get(expression["key"]), expression["operator"]
    wanted = list(expression.get("values") or ())
    if operator in ("Gt", "Lt"):
        if not (_is_whole(found) and len(wanted) == 1 and _is_whole(wanted[0])):
            return False
        difference = int(found or 0) - int(wanted[0])
        return difference > 0 if operator == "Gt" else difference < 0
    by_operator = {
        "In": found in wanted,
        "NotIn": found not in wanted,
        "Exists": found is not None,
        "DoesNotExist": found is None,
    }
    return by_operator.get(operator, False)


def _is_whole(text: str | None) -> bool:
    return text is not None and text.removeprefix("-").isdecimal()
