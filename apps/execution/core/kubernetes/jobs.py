"""Pods as jobs of Berth: their application, target, units, names and annotations."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.execution.core.kubernetes.values import MILLIS, Pod
from apps.workloads.core.spec import parse_job

PREFIX: Final = "berth.dev/"
APPLICATION: Final = PREFIX + "application"
# annotation: field of a job, and whether its text is JSON
ANNOTATIONS: Final[Mapping[str, tuple[str, bool]]] = {
    APPLICATION: ("application", False),
    PREFIX + "target": ("target", True),
    PREFIX + "priority": ("priority", True),
    PREFIX + "policy": ("policy", False),
}
_BY_FIELD: Final = {name: annotation for annotation, (name, _) in ANNOTATIONS.items()}
_HASH: Final = "pod-template-hash"
_MAX_PROJECT: Final = 63


def is_followed(pod: Pod) -> bool:
    """Tell whether Berth counts a pod of another scheduler: it names an application."""
    return APPLICATION in pod.annotations


def units_of(pod: Pod) -> int:
    """Return the units of a pod: one for each core, or part of one, that it requests."""
    return max(1, -(-pod.requests.cpu_millis // MILLIS))


def why_not(pod: Pod) -> str | None:
    """Return why Berth cannot place a pod, whatever the nodes; None if it can."""
    if pod.constraints:
        return f"Berth does not evaluate {', '.join(pod.constraints)}"
    if pod.requests.others:
        return f"Berth places by CPU and memory, not by {', '.join(pod.requests.others)}"
    return None


def fields_of(pod: Pod) -> dict[str, Any]:
    """Return the fields of the job of a pod, as the REST interface would take them.

    Raises
    ------
    InvalidInputError : an annotation is malformed; its problems name the annotations.
    """
    fields: dict[str, Any] = {
        "application": default_application(pod),
        "name": name_of(pod),
        "units": units_of(pod),
        "command": list(pod.command),
        "labels": labels_of(pod),
        "unit_memory_bytes": -(-pod.requests.memory_bytes // units_of(pod)),
        **_annotated(pod),
    }
    try:
        parse_job(fields)
    except InvalidInputError as error:
        raise InvalidInputError([_renamed(each) for each in error.problems]) from error
    return fields


def _annotated(pod: Pod) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    problems = []
    for name, text in sorted(pod.annotations.items()):
        if not name.startswith(PREFIX):
            continue
        if name not in ANNOTATIONS:
            known = ", ".join(ANNOTATIONS)
            problems.append(FieldProblem(name, "unknown_field", f"unknown; known are {known}"))
            continue
        field, is_json = ANNOTATIONS[name]
        try:
            fields[field] = json.loads(text) if is_json else text
        except ValueError:
            problems.append(FieldProblem(name, "bad_json", f"must be JSON, not {text!r:.60}"))
    if problems:
        raise InvalidInputError(problems)
    return fields


def _renamed(problem: FieldProblem) -> FieldProblem:
    """Name the annotation of a field instead of its JSON Pointer."""
    field, _, rest = problem.pointer.lstrip("/").partition("/")
    where = _BY_FIELD.get(field, problem.pointer) + (f" ({rest})" if rest else "")
    return FieldProblem(where, problem.code, problem.detail)


def default_application(pod: Pod) -> str:
    """Return the application of a pod that names none: its namespace and its controller."""
    if pod.owner is None:
        name = pod.labels.get("app.kubernetes.io/name") or pod.name
    else:
        name = pod.owner.name.removesuffix("-" + pod.labels.get(_HASH, "\0"))
    return f"k8s-{pod.namespace}-{_plain(name)}"[:127].rstrip("._-")


def name_of(pod: Pod) -> str:
    """Return the name of the job of a pod; pods of one name differ in their uid."""
    return f"{_plain(pod.name)[:110]}-{_plain(pod.uid)[:8]}".rstrip("._-")


def labels_of(pod: Pod) -> dict[str, str]:
    """Return the labels of the job of a pod."""
    labels = {"kubernetes-namespace": pod.namespace, "kubernetes-pod": pod.name}
    if pod.owner is not None:
        labels["kubernetes-owner"] = f"{pod.owner.kind}/{pod.owner.name}"[:255]
    return labels


def user_of(namespace: str) -> str:
    """Return the user that the pods of a namespace belong to."""
    return f"k8s-{namespace}"


def project_of(namespace: str) -> str:
    """Return the name that the project of a namespace would have."""
    return namespace[:_MAX_PROJECT]


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("._+-") or "pod"
