"""Pods that name Berth as their scheduler, before a fake API server."""

from typing import Any

import pytest

from apps.execution.backends.kubernetes.cluster import Cluster
from apps.execution.core.kubernetes.values import Pod
from apps.execution.models import KubernetesPod, Launch
from apps.execution.services.backend_holders import BackendHeldError
from apps.inventory.models import Server
from apps.workloads.services import cancel_jobs
from tests.execution.kubernetes.conftest import World, a_backend
from tests.execution.kubernetes.objects import a_node, ended, runs


def test_a_pending_pod_is_placed_bound_and_followed_to_its_end(world: World) -> None:
    key = world.submit("p1", "2500m", "3Gi")
    node = world.until_bound(key)
    assert node in ("n1", "n2")
    job = world.job(key)
    assert (job.state, job.units, job.backend) == ("starting", 3, "kubernetes")
    assert (job.created_by.username, job.project.name) == ("k8s-team-a", "default")
    assert Server.objects.get(name=node).used_cores == 3
    world.fake.change("pods", key, runs())
    world.until_state(key, "running")
    world.fake.change("pods", key, ended(0))
    job = world.until_state(key, "succeeded")
    assert (job.exit_code, Server.objects.filter(used_cores__gt=0).count()) == (0, 0)
    assert world.said(key) == [("Scheduled", f"Berth has bound {key} to {node}")]
    assert len(world.bindings()) == 1


def test_the_official_client_asks(world: World) -> None:
    world.until_bound(world.submit())
    agents = {agent for _, _, agent in world.fake.requests}
    assert agents == {"OpenAPI-Generator/35.0.0/python"}


def test_nodes_become_servers_and_their_kinds_platforms(world: World) -> None:
    labels = {"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "z1"}
    world.fake.put("nodes", a_node("n3", "2", "8Gi", labels=labels))
    world.until(lambda: Server.objects.count() == 3, "three servers")
    rows = {row.name: row for row in Server.objects.select_related("platform", "rack")}
    assert rows["n1"].platform == rows["n2"].platform
    assert rows["n1"].platform.name == "kubernetes-amd64-4c-8g"
    assert (rows["n3"].platform.name, rows["n3"].rack.name) == ("kubernetes-m5.large-2c-8g", "z1")
    assert (rows["n1"].cores, rows["n1"].memory_bytes) == (4, 8 * 2**30)
    assert rows["n1"].labels["kubernetes.io/hostname"] == "n1"


@pytest.mark.parametrize(
    ("status", "state", "code", "message"),
    [
        (ended(3), "failed", 3, "container main: exit code 3"),
        (ended(137, "OOMKilled"), "failed", 137, "container main: OOMKilled, exit code 137"),
        (
            {"status": {"phase": "Failed", "reason": "Evicted", "message": "disk pressure"}},
            "failed", None, "Kubernetes ended it: Evicted (disk pressure)",
        ),
    ],
    ids=["exit", "memory", "evicted"],
)  # fmt: skip
def test_the_end_of_a_pod_is_reported(
    world: World, status: dict[str, Any], state: str, code: int | None, message: str
) -> None:
    key = world.submit()
    world.until_running(key)
    world.fake.change("pods", key, status)
    job = world.until_state(key, "failed", "succeeded")
    assert (job.state, job.exit_code, job.reason_message) == (state, code, message)


def test_a_pod_that_another_scheduler_binds_first_is_followed_where_it_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Cluster.bind

    def too_late(cluster: Cluster, pod: Pod, node: str) -> None:
        other = "n1" if node == "n2" else "n2"
        world.fake.change("pods", f"{pod.namespace}/{pod.name}", {"spec": {"nodeName": other}})
        real(cluster, pod, node)

    monkeypatch.setattr(Cluster, "bind", too_late)
    key = world.submit()
    node = world.until_bound(key)
    world.fake.change("pods", key, runs())
    job = world.until_state(key, "running")
    launch = Launch.objects.get(job=job, state="running")
    assert Server.objects.get(pk=launch.order["parts"][0][0]).name == node
    assert len(world.bindings()) == 1  # answered with 409, and not repeated
    assert [row.outcome for row in Launch.objects.filter(job=job).order_by("attempt")] == [
        "lost",
        "",
    ]


def test_a_pod_that_is_deleted_before_it_is_bound_is_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Cluster.bind

    def too_late(cluster: Cluster, pod: Pod, node: str) -> None:
        world.fake.remove("pods", f"{pod.namespace}/{pod.name}")
        real(cluster, pod, node)

    monkeypatch.setattr(Cluster, "bind", too_late)
    key = world.submit()
    assert world.until_state(key, "cancelled").reason_code == "Cancelled"
    assert len(world.bindings()) == 1  # answered with 404
    assert Server.objects.filter(used_cores__gt=0).count() == 0


def test_a_pod_recreated_under_its_name_is_another_job(world: World) -> None:
    key = world.submit("p1", "4")
    world.until_running(key)
    waiting = world.submit("p2", "4", nodeSelector={"kubernetes.io/hostname": world.node_of(key)})
    world.until_state(waiting, "queued")
    old = world.job(waiting)
    world.fake.remove("pods", waiting)
    world.submit("p2", "1", uid="11111111-0000-4000-8000-000000000001")
    world.until_bound(waiting)
    old.refresh_from_db()
    assert (old.state, world.job(waiting).state) == ("cancelled", "starting")


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_binding_is_tried_again_while_the_api_server_is_busy(world: World, code: int) -> None:
    world.fake.failures = [("/binding", code), ("/binding", code)]
    key = world.submit()
    world.until_bound(key)
    assert len(world.bindings()) == 3
    assert world.said(key)[0][0] == "BindingFailed"
    assert Launch.objects.get().attempt == 1


def test_a_watch_that_ends_continues_where_it_ended(world: World) -> None:
    world.until_bound(world.submit("p1"))
    for _ in range(2):
        world.fake.bookmark()
        world.fake.end_watches()
        world.turns(0.3)
    world.until_bound(world.submit("p2"))
    nodes, pods = world.backend.watchers
    assert (nodes.lists, pods.lists, pods.expiries) == (1, 1, 0)


def test_a_watch_that_is_too_old_lists_again(world: World) -> None:
    key = world.submit("p1")
    world.until_running(key)
    _, pods = world.backend.watchers
    world.fake.page = 2  # a list of several pages
    world.fake.compact()
    for name in ("p2", "p3", "p4"):
        world.submit(name)
    world.until_bound("team-a/p4")
    assert (pods.lists, pods.expiries) == (2, 1)
    assert world.job(key).state == "running"


def test_nothing_changes_while_the_api_server_is_away(world: World) -> None:
    key = world.submit("p1")
    world.until_running(key)
    world.fake.is_up = False
    world.fake.end_watches()
    world.until(lambda: not world.backend.pods.is_current, "the watch is lost")
    world.fake.remove("pods", key)
    world.turns(0.5)
    assert world.job(key).state == "running"
    world.fake.is_up = True
    assert world.until_state(key, "cancelled").state == "cancelled"


def test_a_new_process_goes_on_where_the_old_one_died(world: World) -> None:
    ends, goes, stays = (world.submit(name) for name in ("ends", "goes", "stays"))
    for key in (ends, goes, stays):
        world.until_running(key)
    world.backend.stop()
    world.fake.change("pods", ends, ended(0))
    world.fake.remove("pods", goes)
    waits = world.submit("waits")
    world.restart()
    world.until_bound(waits)
    assert world.until_state(ends, "succeeded").exit_code == 0
    assert "is not known" in world.until_state(goes, "failed").reason_message
    assert (world.job(stays).state, world.job(stays).attempts) == ("running", 1)
    assert len(world.bindings()) == 4


def test_a_second_process_waits(world: World) -> None:
    with pytest.raises(BackendHeldError):
        a_backend(world.fake, "second")


def test_a_cancelled_job_deletes_this_very_pod(world: World) -> None:
    key, full = world.submit("p1", "4"), world.submit("p2", "4")
    for each in (key, full):
        world.until_running(each)
    waiting = world.submit("p3", "4")
    world.until_state(waiting, "queued")
    cancel_jobs([world.job(key).pk, world.job(waiting).pk])
    world.until(lambda: waiting not in world.fake.objects["pods"], "the waiting pod is deleted")
    world.until(lambda: world.pod(key)["metadata"].get("deletionTimestamp"), "it is being deleted")
    assert world.job(key).state == "running"  # until its kubelet has stopped it
    world.fake.remove("pods", key)
    assert world.until_state(key, "cancelled").reason_code == "Cancelled"
    assert KubernetesPod.objects.filter(is_open=True).count() == 1


def test_a_missing_right_to_delete_is_said_on_the_pod(world: World) -> None:
    key = world.submit()
    job = world.until_running(key)
    world.fake.failures = [("/pods/p1", 403)]
    cancel_jobs([job.pk])
    world.until(lambda: world.said(key)[-1][0] == "CancellingFailed", "the event")
    assert "403" in world.said(key)[-1][1]
    assert world.job(key).state == "running"


def test_an_eviction_is_a_failure_and_names_its_reason(world: World) -> None:
    key = world.submit()
    world.until_running(key)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    world.fake.change(
        "pods", key,
        {"metadata": {"deletionTimestamp": "2026-11-23T12:00:00Z"}},
        {"status": {"conditions": [condition]}},
    )  # fmt: skip
    world.turns(0.3)
    assert world.job(key).state == "running"
    world.fake.remove("pods", key)
    job = world.until_state(key, "failed")
    assert job.reason_message == "Kubernetes evicted it: PreemptionByScheduler"


def test_a_node_that_is_not_ready_is_down_and_its_pods_are_followed_when_it_returns(
    world: World,
) -> None:
    key = world.submit()
    world.until_running(key)
    node = world.node_of(key)
    silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    world.fake.change("nodes", node, silent)
    world.until(lambda: Server.objects.get(name=node).state == "down", "it is down")
    world.fake.change(
        "nodes", node, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    )
    world.until(lambda: Server.objects.get(name=node).state == "active", "it is back")
    assert world.until_state(key, "running").state == "running"
    assert len(world.bindings()) == 1


def test_a_node_that_is_removed_is_down_and_a_cordoned_one_drains(world: World) -> None:
    world.until(lambda: Server.objects.count() == 2, "two servers")
    world.fake.change("nodes", "n1", {"spec": {"unschedulable": True}})
    world.fake.remove("nodes", "n2")
    world.until(
        lambda: (
            {row.name: row.state for row in Server.objects.all()}
            == {"n1": "draining", "n2": "down"}
        ),
        "their states follow",
    )
    key = world.submit()
    world.turns(0.5)
    assert world.node_of(key) == ""
    world.fake.change("nodes", "n1", {"spec": {"unschedulable": False}})
    assert world.until_bound(key) == "n1"
