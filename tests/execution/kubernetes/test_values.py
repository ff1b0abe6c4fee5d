"""Quantities, requests, eligibility, jobs of pods and copies of lists, without an API server."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.core.errors import InvalidInputError
from apps.execution.core.kubernetes.answers import AnswerError, read_node, read_pod, requests_of
from apps.execution.core.kubernetes.backoff import FIRST_S, LAST_S, delay_s
from apps.execution.core.kubernetes.eligible import Where, is_eligible, platform_of, where
from apps.execution.core.kubernetes.jobs import default_application, fields_of, units_of
from apps.execution.core.kubernetes.mirror import ExpiredError, Mirror
from apps.execution.core.kubernetes.quantities import read_millis, read_whole
from apps.execution.core.kubernetes.room import left_of, requested, shortage
from apps.execution.core.kubernetes.values import (
    Exit,
    Node,
    Owner,
    Phase,
    Pod,
    Resources,
    Taint,
    Toleration,
)  # fmt: skip
from tests.execution.kubernetes.objects import a_node, a_pod

DOCUMENTED = Path(__file__).parent / "documented"
GIB = 2**30


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("500m", 500), ("1", 1000), (2, 2000), (0.5, 500), ("1.5", 1500), ("1e3", 1_000_000),
        ("0.1m", 1), ("100u", 1), ("1n", 1), ("0", 0), (".5", 500), ("2k", 2_000_000),
    ],
)  # fmt: skip
def test_cpu_is_read_in_millis_and_rounded_up(text: object, millis: int) -> None:
    assert read_millis(text) == millis


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("128Mi", 128 * 2**20), ("1.5Gi", 3 * 2**29), ("1G", 10**9), ("1E", 10**18),
        ("1Ei", 2**60), ("129e6", 129_000_000), ("1E3", 1000), ("123456789", 123_456_789),
        ("1.5", 2), ("100m", 1),
    ],
)  # fmt: skip
def test_memory_is_read_in_bytes(text: str, count: int) -> None:
    assert read_whole(text) == count


@pytest.mark.parametrize(
    "text", ["", "1 Gi", "Gi", "1KiB", "-1", "1e99", "0x1", "1,5", "9" * 50, "nan", None]
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="quantity"):
        read_whole(text)


@given(st.integers(min_value=0, max_value=10**12))
def test_whole_numbers_are_read_as_they_are(count: int) -> None:
    assert read_whole(str(count)) == count
    assert read_millis(f"{count}m") == count


def container(cpu: str, memory: str = "0", **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


@pytest.mark.parametrize(
    ("spec", "millis"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("500m", restartPolicy="Always"), container("2")],
            },
            2500,
        ),
        (
            {
                "containers": [container("2")],
                "initContainers": [container("500m", restartPolicy="Always"), container("1")],
            },
            2500,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [{"name": "c"}]}, 0),
    ],
    ids=["sum", "init", "sidecar-and-init", "sidecar", "overhead", "limits", "nothing"],
)
def test_requests_are_those_that_the_scheduler_of_kubernetes_reserves(
    spec: dict[str, Any], millis: int
) -> None:
    assert requests_of(spec).cpu_millis == millis


@pytest.mark.parametrize(
    ("millis", "units"), [(0, 1), (1, 1), (1000, 1), (1001, 2), (2500, 3), (4000, 4)]
)
def test_each_core_or_part_of_one_is_a_unit(millis: int, units: int) -> None:
    assert units_of(Pod("u", "n", "p", requests=Resources(millis))) == units


def test_the_documented_objects_are_read() -> None:
    data = json.loads((DOCUMENTED / "objects.json").read_text())
    pod, node = read_pod(data["pod"]), read_node(data["node"])
    assert (pod.path, pod.phase, pod.node) == ("default/web-7d4b9c-x2x8p", Phase.RUNNING, "node-1")
    assert pod.owner == Owner("ReplicaSet", "web-7d4b9c")
    assert default_application(pod) == "k8s-default-web"
    assert pod.requests == Resources(350, 192 * 2**20, 1)
    assert node.room == Resources(3920, 7_829_848 * 1024, 110)
    assert (node.is_ready, node.is_unschedulable) == (True, False)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"metadata": {"name": "p"}}, "the pod p: KeyError"),
        ({"metadata": {"name": "p"}, "spec": None}, "the pod p: "),
        ({}, "the pod \\?: KeyError"),
    ],
)
def test_a_malformed_object_is_named(data: dict[str, Any], message: str) -> None:
    with pytest.raises(AnswerError, match=message):
        read_pod(data)


def node(name: str = "n1", *taints: Taint, **labels: str) -> Node:
    return Node(name, Resources(4000, 8 * GIB, 110), labels=labels, taints=taints)


GPU = Taint("team", "gpu", "NoSchedule")
EMPTY = Taint("", "", "NoSchedule")
ONLY_EXECUTE = Toleration("team", "Exists", "", "NoExecute")
SOFT = Taint("team", "gpu", "PreferNoSchedule")
SILENT = Taint("node.kubernetes.io/unreachable", "", "NoExecute")


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("pod", "on", "fits"),
    [
        ({}, node(), True),
        ({"selector": {"disk": "ssd"}}, node(disk="ssd"), True),
        ({"selector": {"disk": "ssd"}}, node(disk="hdd"), False),
        ({"selector": {"disk": "ssd"}}, node(), False),
        ({}, node("n1", GPU), False),
        ({}, node("n1", SOFT), True),
        ({}, node("n1", SILENT), True),
        ({"tolerations": (Toleration("team", "Equal", "gpu"),)}, node("n1", GPU), True),
        ({"tolerations": (Toleration("team", "Equal", "web"),)}, node("n1", GPU), False),
        ({"tolerations": (Toleration("team", "Exists"),)}, node("n1", GPU), True),
        ({"tolerations": (Toleration("", "Exists"),)}, node("n1", GPU), True),
        ({"tolerations": (Toleration("", "Equal"),)}, node("n1", EMPTY), False),
        ({"tolerations": (ONLY_EXECUTE,)}, node("n1", GPU), False),
        ({"terms": (term("size", "In", "s", "m"),)}, node(size="m"), True),
        ({"terms": (term("size", "In", "s"),)}, node(size="m"), False),
        ({"terms": (term("size", "NotIn", "s"),)}, node(), True),
        ({"terms": (term("size", "Exists"),)}, node(), False),
        ({"terms": (term("size", "DoesNotExist"),)}, node(), True),
        ({"terms": (term("n", "Gt", "3"),)}, node(n="4"), True),
        ({"terms": (term("n", "Gt", "4"),)}, node(n="4"), False),
        ({"terms": (term("n", "Lt", "4"),)}, node(n="x"), False),
        ({"terms": (term("n", "Near", "4"),)}, node(n="4"), False),
        ({"terms": ({},)}, node(), False),
        ({"terms": (term("a", "Exists"), term("b", "Exists"))}, node(b="1"), True),
    ],
)  # fmt: skip
def test_a_pod_may_run_where_kubernetes_lets_it(pod: dict[str, Any], on: Node, fits: bool) -> None:
    assert is_eligible(Pod("u", "n", "p", **pod), on) is fits


def test_where_a_pod_may_run_is_described_exactly_or_not_at_all() -> None:
    a, b, c = node("a", disk="ssd"), node("b", disk="hdd"), node("c", GPU)
    plain = Pod("u", "n", "p")
    assert where(plain, [a, b, c]) == Where((platform_of(a),), {})
    assert platform_of(a) == platform_of(b) != platform_of(c)
    assert where(replace(plain, selector={"disk": "ssd"}), [a, b, c]) == Where(
        (), {"kubernetes-node": "a"}
    )
    more = [a, b, node("d", disk="ssd")]
    divided = replace(plain, terms=(term("disk", "NotIn", "hdd"),))
    assert "nodeSelector" in str(where(divided, more))
    assert where(replace(plain, selector={"disk": "ssd"}), more) == Where(
        (platform_of(a),), {"disk": "ssd"}
    )
    assert "no node" in str(where(replace(plain, selector={"disk": "nvme"}), more))


@given(
    st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("uv"), st.booleans()), max_size=6),
    st.sampled_from(["x", "y", ""]),
    st.sampled_from(["u", "v", ""]),
    st.booleans(),
)
def test_a_description_names_exactly_the_eligible_nodes(
    kinds: list[tuple[str, str, bool]], selected: str, affine: str, tolerant: bool
) -> None:
    nodes = [
        node(f"n{i}", *([GPU] if tainted else []), a=a, b=b)
        for i, (a, b, tainted) in enumerate(kinds)
    ]
    pod = Pod(
        "u", "n", "p",
        selector={"a": selected} if selected else {},
        terms=(term("b", "In", affine),) if affine else (),
        tolerations=(Toleration("", "Exists"),) if tolerant else (),
    )  # fmt: skip
    found = where(pod, nodes)
    if isinstance(found, Where):
        described = {
            each.name
            for each in nodes
            if (not found.platforms or platform_of(each) in found.platforms)
            and found.labels.items() <= {**each.labels, "kubernetes-node": each.name}.items()
        }
        assert described == {each.name for each in nodes if is_eligible(pod, each)}


def test_problems_of_annotations_are_all_listed_by_their_names() -> None:
    pod = read_pod(a_pod("p", annotations={"berth.dev/priority": "x", "berth.dev/nope": "1"}))
    with pytest.raises(InvalidInputError) as caught:
        fields_of(pod)
    assert [each.pointer for each in caught.value.problems] == [
        "berth.dev/nope", "berth.dev/priority",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("need", "text"),
    [
        (Resources(1000, GIB, 1), ""),
        (Resources(3000, GIB, 1), "2000m CPU are free, and it requests 3000m"),
        (Resources(1000, 9 * GIB, 1), "bytes are free"),
        (Resources(1000, GIB, 2), "no further pod"),
    ],
)
def test_a_shortage_is_named(need: Resources, text: str) -> None:
    assert text in shortage(Pod("u", "n", "p", requests=need), Resources(2000, 8 * GIB, 1))
    assert bool(shortage(Pod("u", "n", "p", requests=need), Resources(2000, 8 * GIB, 1))) is bool(
        text
    )


def test_what_is_left_counts_bound_pods_until_they_end() -> None:
    one = Pod("1", "n", "p", node="n1", requests=Resources(1500, GIB, 1))
    pods = [
        one, replace(one, uid="2", status="Succeeded"), replace(one, uid="3", node=""),
        replace(one, uid="4", node="n2"), replace(one, uid="5", scheduler="other"),
    ]  # fmt: skip
    taken = requested(pods, lambda pod: pod.scheduler != "other")
    assert left_of(node(), taken) == Resources(2500, 7 * GIB, 109)
    everything = requested([replace(one, requests=Resources(9000, 99 * GIB, 200))], lambda _: True)
    assert left_of(node(), everything) == Resources()


def event(kind: str, data: dict[str, Any], version: int) -> dict[str, Any]:
    data["metadata"]["resourceVersion"] = str(version)
    return {"type": kind, "object": data}


def test_a_mirror_follows_events_bookmarks_and_lists() -> None:
    mirror = Mirror(read_node, lambda node: node.name)
    mirror.replace([a_node("a"), a_node("b")], "5")
    mirror.apply(event("MODIFIED", a_node("a", "8"), 6))
    mirror.apply(event("ADDED", a_node("c"), 7))
    mirror.apply(event("DELETED", a_node("b"), 8))
    mirror.apply(event("BOOKMARK", {"metadata": {}}, 20))
    assert (sorted(mirror.items()), mirror.version) == (["a", "c"], "20")
    assert mirror.items()["a"].room.cpu_millis == 8000
    assert list(mirror.deleted()) == ["b"]
    mirror.forget(["b"])
    assert mirror.deleted() == {}
    mirror.expire()
    assert (mirror.version, mirror.is_current) == ("", False)
    mirror.replace([a_node("d")], "30")
    assert (list(mirror.items()), mirror.is_current) == (["d"], True)


def broken(name: str, namespace: str = "team-a") -> dict[str, Any]:
    return a_pod(name, "many", namespace=namespace, uid=f"{namespace}-{name}")


def test_objects_that_cannot_be_read_are_forgotten_once_they_are_deleted() -> None:
    mirror = Mirror(read_pod, lambda pod: pod.uid)
    mirror.replace([broken("a"), broken("b"), a_pod("c", uid="team-a-c")], "5")
    mirror.apply(event("MODIFIED", broken("c"), 6))
    assert sorted(mirror.unread) == ["team-a/a", "team-a/b", "team-a/c"]
    mirror.apply(event("DELETED", a_pod("a", namespace="team-b"), 7))  # another pod
    mirror.apply(event("DELETED", broken("a"), 8))
    mirror.apply(event("DELETED", broken("c"), 9))
    assert sorted(mirror.unread) == ["team-a/b"]
    assert mirror.items() == {}
    assert mirror.deleted()["team-a-c"].requests.cpu_millis == 1000  # the last form it could read
    mirror.replace([], "20")  # b was deleted while no watch was open
    assert mirror.unread == {}


def test_a_mirror_tells_an_expired_watch_from_another_error() -> None:
    mirror = Mirror(read_node, lambda node: node.name)
    with pytest.raises(ExpiredError, match="too old"):
        mirror.apply({"type": "ERROR", "object": {"code": 410, "message": "too old: 5 (9)"}})
    with pytest.raises(AnswerError, match="500 etcd"):
        mirror.apply({"type": "ERROR", "object": {"code": 500, "message": "etcd"}})


def test_delays_double_to_a_limit_and_are_drawn_from_the_upper_half() -> None:
    rng = np.random.default_rng(1)
    limits = [FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    drawn = [[delay_s(n, rng) for _ in range(200)] for n in (1, 2, 3, 40)]
    for found, limit in zip(drawn, [*limits, LAST_S], strict=True):
        assert limit / 2 <= min(found) < limit * 0.6 < limit * 0.9 < max(found) <= limit


def test_exits_name_the_container() -> None:
    data = a_pod("p", nodeName="n1")
    data["status"] = {
        "phase": "Failed",
        "containerStatuses": [
            {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": at}}}
            for name, code, at in (
                ("a", 0, "2026-11-23T10:00:00Z"),
                ("b", 7, "2026-11-23T10:00:09Z"),
            )
        ],
    }  # fmt: skip
    pod = read_pod(data)
    assert pod.exits == (Exit("a", 0), Exit("b", 7))
    assert pod.ended_s == 1_795_428_009.0
