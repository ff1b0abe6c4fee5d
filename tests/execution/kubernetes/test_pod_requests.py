"""What pods ask for: annotations, gates, selectors and room, before a fake API server."""

import json
from typing import Any

import pytest

from apps.accounts.services import ensure_project
from apps.common.core.errors import ConflictError
from apps.execution.models import Launch
from apps.execution.services.suspension import suspend_job
from apps.inventory.models import Server
from apps.workloads.models import Job
from tests.execution.kubernetes.conftest import World
from tests.execution.kubernetes.objects import a_node, a_pod, runs


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"berth.dev/target": "fast"}, "berth.dev/target: must be JSON, not 'fast'"),
        (
            {"berth.dev/target": json.dumps({"kind": "completion_time", "seconds": -1})},
            "berth.dev/target (seconds): must be at least",
        ),
        ({"berth.dev/priority": "900"}, "berth.dev/priority: must be at most 100, not 900"),
        ({"berth.dev/size": "3"}, "berth.dev/size: unknown; known are"),
        ({"berth.dev/application": "a b"}, "berth.dev/application: may contain letters"),
    ],
    ids=["json", "seconds", "priority", "unknown", "name"],
)
def test_a_malformed_annotation_is_named_in_an_event(
    world: World, annotations: dict[str, str], message: str
) -> None:
    key = world.submit(annotations=annotations)
    world.until(lambda: world.said(key), "an event")
    ((reason, text),) = world.said(key)
    assert (reason, message in text) == ("NotAccepted", True), text
    world.turns(0.5)
    assert (len(world.said(key)), Job.objects.count()) == (1, 0)
    world.fake.change("pods", key, {"metadata": {"annotations": dict.fromkeys(annotations, "")}})
    world.fake.objects["pods"][key]["metadata"]["annotations"] = {}
    world.fake.change("pods", key, {})
    world.until_bound(key)


def test_annotations_become_the_job(world: World) -> None:
    target = {"kind": "completion_time", "seconds": 600.0}
    key = world.submit(
        annotations={
            "berth.dev/application": "render", "berth.dev/target": json.dumps(target),
            "berth.dev/priority": "7",
        },
        owner=("Job", "render-nightly"),
    )  # fmt: skip
    world.until_bound(key)
    job = world.job(key)
    assert (job.application.name, job.target, job.priority) == ("render", target, 7)
    assert job.labels["kubernetes-owner"] == "Job/render-nightly"


def test_a_namespace_is_the_project_of_its_name(world: World) -> None:
    ensure_project("team-b")
    key = world.submit("p1", namespace="team-b")
    world.until_bound(key)
    assert world.job(key).project.name == "team-b"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"topologySpreadConstraints": [{"maxSkew": 1}]},
            "Berth does not evaluate topology spread constraints",
        ),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            "Berth does not evaluate persistent volume claims",
        ),
        ({"nodeSelector": {"disk": "ssd"}}, "no node has the labels and taints"),
    ],
    ids=["spread", "volume", "selector"],
)
def test_a_pod_that_berth_cannot_place_says_why(
    world: World, spec: dict[str, Any], message: str
) -> None:
    key = world.submit(**spec)
    world.until(lambda: world.said(key), "an event")
    assert message in world.said(key)[0][1]
    assert Job.objects.count() == 0


def test_a_gated_pod_waits_for_its_gates(world: World) -> None:
    key = world.submit(schedulingGates=[{"name": "quota"}])
    world.turns(0.5)
    assert (Job.objects.count(), world.said(key)) == (0, [])
    world.fake.change("pods", key, {"spec": {"schedulingGates": []}})
    world.until_bound(key)


def test_selectors_taints_and_affinity_decide_the_node(world: World) -> None:
    taint = {"key": "team", "value": "gpu", "effect": "NoSchedule"}
    world.fake.put("nodes", a_node("tainted", "16", "64Gi", taints=[taint]))
    term = {
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]
    }
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }
    world.until(lambda: Server.objects.count() == 3, "three servers")
    by_affinity = world.submit("affinity", affinity=affinity)
    by_selector = world.submit("selector", nodeSelector={"kubernetes.io/hostname": "n1"})
    wide = world.submit("wide", "16")
    tolerates = {"key": "team", "operator": "Exists"}
    tolerant = world.submit("tolerant", "16", tolerations=[tolerates])
    assert world.until_bound(by_affinity) == "n2"
    assert world.until_bound(by_selector) == "n1"
    assert world.until_bound(tolerant) == "tainted"
    assert world.node_of(wide) == ""


def test_pods_of_others_take_room_from_a_new_node(world: World) -> None:
    other = a_pod("other", "1500m", "2Gi", schedulerName="default-scheduler", nodeName="n3")
    world.fake.put("pods", other)
    world.until(lambda: "team-a/other" in world.seen(), "the pod is seen, as at a start of Berth")
    world.fake.put("nodes", a_node("n3"))
    world.until(lambda: Server.objects.filter(name="n3").exists(), "it is a server")
    row = Server.objects.get(name="n3")
    assert (row.cores, row.memory_bytes) == (2, 6 * 2**30)


def test_a_node_without_room_takes_no_more_until_others_leave(world: World) -> None:
    world.until(lambda: Server.objects.count() == 2, "two servers")
    for name in ("n1", "n2"):
        other = a_pod(f"other-{name}", "2", schedulerName="default-scheduler", nodeName=name)
        world.fake.put("pods", other)
    key = world.submit("p1", "3")
    world.until(lambda: "NoRoom" in dict(world.said(key)), "the event")
    assert "2000m CPU are free, and it requests 3000m" in dict(world.said(key))["NoRoom"]
    world.until(lambda: Server.objects.filter(state="draining").exists(), "its node is closed")
    world.fake.remove("pods", "team-a/other-n1")
    world.fake.remove("pods", "team-a/other-n2")
    world.until_bound(key)
    world.until(lambda: not Server.objects.exclude(state="active").exists(), "nodes are open")


def test_a_pod_without_room_on_its_node_is_placed_on_another(world: World) -> None:
    world.until(lambda: Server.objects.count() == 2, "two servers")
    other = a_pod("other", "2", schedulerName="default-scheduler", nodeName="n1")
    world.fake.put("pods", other)
    world.fake.change("nodes", "n2", {"spec": {"unschedulable": True}})
    world.until(lambda: Server.objects.get(name="n2").state == "draining", "n2 is closed")
    key = world.submit("p1", "3")
    world.until(lambda: Launch.objects.filter(outcome="lost").exists(), "n1 has no room")
    world.turns(2.5)
    assert Launch.objects.count() == 1  # n1 is closed: the job waits
    world.fake.change("nodes", "n2", {"spec": {"unschedulable": False}})
    assert world.until_bound(key) == "n2"


def test_a_pod_of_another_scheduler_is_followed_if_it_names_an_application(world: World) -> None:
    annotations = {"berth.dev/application": "web"}
    key = world.submit("p1", "2", schedulerName="default-scheduler", annotations=annotations)
    world.turns(0.5)
    assert Job.objects.count() == 0  # the other scheduler places it
    world.fake.change("pods", key, {"spec": {"nodeName": "n2"}}, runs())
    job = world.until_state(key, "running")
    assert Server.objects.get(name="n2").used_cores == 2
    assert (job.application.name, world.bindings()) == ("web", [])


def test_a_pod_that_cannot_be_read_hides_no_other(world: World) -> None:
    broken = a_pod("broken")
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    world.fake.put("pods", broken)
    world.until_bound(world.submit("p1"))
    assert "not a quantity: 'many'" in world.backend.pods.unread["team-a/broken"]


def test_a_pod_that_cannot_be_read_is_forgotten_once_it_is_deleted(world: World) -> None:
    key = world.submit("p1")
    job = world.until_running(key)
    world.fake.change("pods", key, {"spec": {"tolerations": "none"}})
    world.until(lambda: "team-a/p1" in world.backend.pods.unread, "it cannot be read")
    world.fake.put("pods", a_pod("p1", namespace="team-b"))  # of the same name, and readable
    world.turns(2.5)
    assert "team-a/p1" in world.backend.pods.unread
    job.refresh_from_db()
    assert job.state == "running"
    world.fake.remove("pods", key)
    world.until_state(key, "cancelled")
    assert world.backend.pods.unread == {}
    world.until(
        lambda: not any(what.startswith("pod ") for what in world.backend._holder._logged),
        "what was logged is forgotten",
    )


def test_a_deleted_pod_ends_although_the_next_of_its_name_cannot_be_read(world: World) -> None:
    key = world.submit("p1")
    world.until_running(key)
    world.fake.remove("pods", key)
    world.submit("p1", "many", uid="another")
    world.until(lambda: key in world.backend.pods.unread, "the next one cannot be read")
    world.until_state(key, "cancelled")


def test_pods_cannot_be_suspended(world: World) -> None:
    job = world.until_running(world.submit())
    with pytest.raises(ConflictError, match="the backend kubernetes cannot suspend jobs"):
        suspend_job(job.pk)


def test_twenty_pods_fill_the_cluster_and_none_is_bound_twice(world: World) -> None:
    keys = [world.submit(f"p{i}") for i in range(20)]
    world.until(lambda: sum(bool(world.node_of(key)) for key in keys) == 8, "eight are bound")
    world.turns(0.5)
    by_node = [world.node_of(key) for key in keys]
    assert (by_node.count("n1"), by_node.count("n2")) == (4, 4)
    assert len(world.bindings()) == 8
