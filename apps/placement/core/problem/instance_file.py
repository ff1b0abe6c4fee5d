"""Reading instances from JSON; every problem names its place, the value and what is accepted.

The shapes are those of `schema`; places are JSON Pointers. O(text) time.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem import schema
from apps.placement.core.problem.instance import NOWHERE, Communication, Instance

MAX_PROBLEMS: Final = 20
MAX_SHOWN: Final = 60


class _Repeated(NamedTuple):
    """A JSON object with a duplicate key; it is refused when it is read."""

    key: str


def read_json(text: str) -> Any:
    """Parse a JSON text; `parse` refuses NaN, infinities and duplicate keys.

    Raises
    ------
    InvalidInputError : the text is not JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError as error:
        raise _refused("", "not_json", "is nested too deeply") from error
    except ValueError as error:
        raise _refused("", "not_json", f"is not JSON: {error}") from error


def parse(data: Any) -> Instance:
    """Return the instance described by parsed JSON.

    Raises
    ------
    InvalidInputError : lists the first twenty problems.
    """
    reader = _Reader()
    top = reader.mapping("", data, schema.SCHEMA["properties"], {"current"})
    nodes = reader.items("/nodes", top.get("nodes", []), schema.NODE)
    containers = reader.items("/containers", top.get("containers", []), schema.CONTAINER)
    reader.stop()
    reader.check_watts(nodes)
    reader.check_jobs(containers)
    reader.check_unique("/nodes", nodes)
    reader.check_unique("/containers", containers)
    slots = sum(node["slots"] for node in nodes)
    if len(containers) > slots:
        shown = f"{len(containers)} containers do not fit in {slots} slots"
        reader.add("/containers", "too_many", f"{shown}; add nodes or slots")
    reader.stop()
    node_index = {node["id"]: i for i, node in enumerate(nodes)}
    index = {container["id"]: i for i, container in enumerate(containers)}
    current = _placement(reader, "/current", top.get("current", {}), index, node_index)
    _check_room(reader, "/current", current, nodes)
    reader.stop()
    return _instance(nodes, containers, current)


def instance_to_json(instance: Instance) -> dict[str, Any]:
    """Return an instance as JSON that `parse` reads."""
    nodes = zip(
        instance.node_ids,
        instance.rack.tolist(),
        instance.slots.tolist(),
        instance.idle_watts.tolist(),
        instance.peak_watts.tolist(),
        strict=True,
    )
    containers = zip(
        instance.container_ids,
        instance.job.tolist(),
        instance.intensity.tolist(),
        instance.is_taz.tolist(),
        instance.current.tolist(),
        strict=True,
    )
    communication = [Communication(each).name.lower() for each in instance.communication.tolist()]
    items: list[dict[str, Any]] = []
    current: dict[str, str] = {}
    for name, job, intensity, is_taz, node in containers:
        word = "taz" if is_taz else "turtle"
        values = (name, instance.job_ids[job], intensity, word, communication[job])
        items.append(dict(zip(schema.CONTAINER, values, strict=True)))
        if node != NOWHERE:
            current[name] = instance.node_ids[node]
    return {
        "nodes": [
            dict(zip(schema.NODE, (name, instance.rack_ids[rack], *rest), strict=True))
            for name, rack, *rest in nodes
        ],
        "containers": items,
        "current": current,
    }


def parse_assignment(instance: Instance, data: Any) -> Ints:
    """(c,) node of each container, from ``{container: node}`` or an answer that contains it.

    Raises
    ------
    InvalidInputError : an unplaced container, an unknown container or node, an overfull node.
    """
    reader = _Reader()
    if isinstance(data, dict) and isinstance(data.get("assignment"), dict):
        data = data["assignment"]
    index = {name: i for i, name in enumerate(instance.container_ids)}
    node_index = {name: i for i, name in enumerate(instance.node_ids)}
    placed = _placement(reader, "", data, index, node_index)
    if not reader.problems:
        for i in np.flatnonzero(placed == NOWHERE).tolist():
            name = instance.container_ids[i]
            reader.add(f"/{_escaped(name)}", "required", "the container has no node")
    nodes = [
        {"id": name, "slots": slots}
        for name, slots in zip(instance.node_ids, instance.slots.tolist(), strict=True)
    ]
    _check_room(reader, "", placed, nodes)
    reader.stop()
    return placed


class _Reader:
    """Reads values, and collects the problems."""

    def __init__(self) -> None:
        self.problems: list[FieldProblem] = []

    def add(self, pointer: str, code: str, detail: str) -> None:
        self.problems.append(FieldProblem(pointer, code, detail))

    def stop(self) -> None:
        """Raise the problems so far, if any."""
        if not self.problems:
            return
        shown = self.problems[:MAX_PROBLEMS]
        more = len(self.problems) - len(shown)
        if more:
            shown.append(FieldProblem("", "more", f"{more} more problems like these"))
        raise InvalidInputError(shown)

    def mapping(
        self, place: str, data: Any, known: Mapping[str, Any], optional: frozenset[str] | set[str]
    ) -> dict[str, Any]:
        """Read an object: known keys only, and all of them except the optional ones."""
        if isinstance(data, _Repeated):
            self.add(place, "repeated", f"duplicate key {_shown(data.key)}")
            return {}
        if not isinstance(data, dict):
            names = ", ".join(known)
            self.add(place, "wrong_type", f"{_shown(data)} is not an object with {names}")
            return {}
        for name in known:
            if name not in data and name not in optional:
                self.add(f"{place}/{name}", "required", "is missing")
        for name in data:
            if name not in known:
                there = ", ".join(known)
                self.add(f"{place}/{_escaped(name)}", "unknown", f"unknown key; known: {there}")
        return {name: data[name] for name in known if name in data}

    def items(
        self, place: str, data: Any, properties: Mapping[str, Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Read a list of objects with these properties."""
        if not isinstance(data, list):
            self.add(place, "wrong_type", f"{_shown(data)} is not a list")
            return []
        if len(data) > schema.MAX_ITEMS:
            self.add(place, "too_many", f"{len(data)} items; at most {schema.MAX_ITEMS}")
            return []
        return [self._item(f"{place}/{i}", item, properties) for i, item in enumerate(data)]

    def _item(
        self, place: str, data: Any, properties: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any]:
        item = self.mapping(place, data, properties, schema.OPTIONAL)
        for name, rule in properties.items():
            if name in item:
                item[name] = self._value(f"{place}/{name}", item[name], rule)
            elif "default" in rule:
                item[name] = rule["default"]
        return item

    def _value(self, place: str, value: Any, rule: Mapping[str, Any]) -> Any:
        if "enum" in rule:
            if isinstance(value, str) and value in rule["enum"]:
                return value
            self.add(place, "unknown", f"{_shown(value)} is not one of {', '.join(rule['enum'])}")
            return None
        if rule["type"] == ["string", "integer"]:
            return self.name(place, value)
        is_whole = rule["type"] == "integer"
        if type(value) not in (int, float) or not _is_finite(value):
            kind = "whole number" if is_whole else "number"
            self.add(place, "wrong_type", f"{_shown(value)} is not a {kind}; {_between(rule)}")
        elif is_whole and value != int(value):
            self.add(
                place, "wrong_type", f"{_shown(value)} is not a whole number; {_between(rule)}"
            )
        elif not rule["minimum"] <= value <= rule["maximum"]:
            self.add(place, "out_of_range", f"{_shown(value)} is out of range; {_between(rule)}")
        else:
            return int(value) if is_whole else float(value)
        return None

    def name(self, place: str, value: Any) -> str:
        """Read an id: a text that is not blank; a whole number becomes its decimal text."""
        if type(value) is int and _is_finite(value):
            return str(value)
        if not isinstance(value, str):
            self.add(place, "wrong_type", f"{_shown(value)} is not a text")
        elif not value.strip():
            self.add(place, "required", f"{_shown(value)} is blank")
        elif len(value) > schema.MAX_ID_LENGTH:
            self.add(
                place, "too_long", f"{_shown(value)}: at most {schema.MAX_ID_LENGTH} characters"
            )
        else:
            return value
        return ""

    def check_watts(self, nodes: list[dict[str, Any]]) -> None:
        for i, node in enumerate(nodes):
            if node["peak_watts"] < node["idle_watts"]:
                shown = f"{node['peak_watts']:g} is below idle_watts ({node['idle_watts']:g})"
                self.add(f"/nodes/{i}/peak_watts", "out_of_range", shown)

    def check_unique(self, place: str, items: list[dict[str, Any]]) -> None:
        seen: dict[str, int] = {}
        for i, item in enumerate(items):
            first = seen.setdefault(item["id"], i)
            if first != i:
                where = f"is already the id of {place}/{first}"
                self.add(f"{place}/{i}/id", "repeated", f"{_shown(item['id'])} {where}")

    def check_jobs(self, containers: list[dict[str, Any]]) -> None:
        """Check that each job has one communication class."""
        seen: dict[str, int] = {}
        for i, container in enumerate(containers):
            first = seen.setdefault(container["job"], i)
            here, before = container["communication"], containers[first]["communication"]
            if here != before:
                detail = (
                    f"job {_shown(container['job'])} is {here!r} here and {before!r} at "
                    f"/containers/{first}; a job has one communication class"
                )
                self.add(f"/containers/{i}/communication", "conflict", detail)


def _placement(
    reader: _Reader, place: str, data: Any, index: Mapping[str, int], nodes: Mapping[str, int]
) -> Ints:
    """(c,) node of each container in the object, `NOWHERE` for the others."""
    placed: Ints = np.full(len(index), NOWHERE, dtype=np.int64)
    if isinstance(data, _Repeated):
        reader.add(place, "repeated", f"duplicate container {_shown(data.key)}")
        return placed
    if not isinstance(data, dict):
        reader.add(place, "wrong_type", f"{_shown(data)} is not an object of container: node")
        return placed
    for container, value in data.items():
        where = f"{place}/{_escaped(container)}"
        if container not in index:
            reader.add(where, "unknown", f"unknown container {_shown(container)}")
            continue
        node = reader.name(where, value)
        if node and node not in nodes:
            reader.add(where, "unknown", f"unknown node {_shown(node)}")
        elif node:
            placed[index[container]] = nodes[node]
    return placed


def _check_room(reader: _Reader, place: str, placed: Ints, nodes: list[dict[str, Any]]) -> None:
    slots: Ints = np.array([node["slots"] for node in nodes], dtype=np.int64)
    used = np.bincount(placed[placed != NOWHERE], minlength=len(nodes))
    for i in np.flatnonzero(used > slots).tolist():
        held = f"{used[i]} containers on node {_shown(nodes[i]['id'])}, which has {slots[i]} slots"
        reader.add(place, "too_many", held)


def _instance(
    nodes: list[dict[str, Any]], containers: list[dict[str, Any]], current: Ints
) -> Instance:
    racks = {node["rack"]: None for node in nodes}
    rack_index = {name: i for i, name in enumerate(racks)}
    jobs = {item["job"]: Communication[item["communication"].upper()] for item in containers}
    job_index = {name: i for i, name in enumerate(jobs)}

    def column(
        items: list[dict[str, Any]], read: Callable[[dict[str, Any]], Any], kind: type
    ) -> Any:
        return np.array([read(item) for item in items], dtype=kind)

    return Instance(
        node_ids=tuple(node["id"] for node in nodes),
        rack_ids=tuple(racks),
        rack=column(nodes, lambda node: rack_index[node["rack"]], np.int64),
        slots=column(nodes, lambda node: node["slots"], np.int64),
        idle_watts=column(nodes, lambda node: node["idle_watts"], np.float64),
        peak_watts=column(nodes, lambda node: node["peak_watts"], np.float64),
        container_ids=tuple(item["id"] for item in containers),
        job_ids=tuple(jobs),
        job=column(containers, lambda item: job_index[item["job"]], np.int64),
        intensity=column(containers, lambda item: item["intensity"], np.float64),
        is_taz=column(containers, lambda item: item["class"] == "taz", np.bool_),
        communication=np.array(list(jobs.values()), dtype=np.int64),
        current=current,
    )


def _object(pairs: list[tuple[str, Any]]) -> Any:
    whole = dict(pairs)
    if len(whole) == len(pairs):
        return whole
    keys = [key for key, _ in pairs]
    return _Repeated(next(key for key in keys if keys.count(key) > 1))


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _between(rule: Mapping[str, Any]) -> str:
    return f"accepted: {rule['minimum']:g} to {rule['maximum']:g}"


def _escaped(key: str) -> str:
    """Return a key as a token of a JSON Pointer (RFC 6901)."""
    return _cut(key).replace("~", "~0").replace("/", "~1")


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, _Repeated):
        return "an object"
    if type(value) is int and not _is_finite(value):
        return "a huge number"
    return repr(_cut(value)) if isinstance(value, str) else json.dumps(value)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _refused(pointer: str, code: str, detail: str) -> InvalidInputError:
    return InvalidInputError([FieldProblem(pointer, code, detail)])
