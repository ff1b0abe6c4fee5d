"""The same requests before a real cluster: only where KUBECONFIG names one.

    KUBECONFIG=~/.kube/config ./dev test -m kubernetes

It makes a namespace, binds one pod that sleeps for a minute, and deletes both.
"""

import os
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from kubernetes import client

from apps.execution.backends.kubernetes.cluster import BoundError, Cluster, Note, connect
from apps.execution.core.kubernetes.answers import read_node, read_pod
from apps.execution.core.kubernetes.values import Phase, Pod
from tests.execution.kubernetes.objects import a_pod

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def live() -> Cluster:
    path = os.environ.get("KUBECONFIG")
    if not path:
        pytest.skip("KUBERNETES TESTS SKIPPED: KUBECONFIG names no cluster")
    return connect(path, None, instance="berth-test")


@pytest.fixture
def namespace(live: Cluster) -> Iterator[str]:
    name = f"berth-test-{uuid4().hex[:8]}"
    metadata = client.V1ObjectMeta(name=name)
    live.core.create_namespace(client.V1Namespace(metadata=metadata))
    yield name
    live.core.delete_namespace(name)


def test_a_pod_is_listed_bound_once_watched_and_deleted(live: Cluster, namespace: str) -> None:
    nodes = [node for node in map(read_node, live.nodes().list()[0]) if node.is_ready]
    body = a_pod("sleeper", "10m", "16Mi", namespace=namespace, schedulerName="berth-test")
    for server_sets in ("uid", "creationTimestamp"):
        del body["metadata"][server_sets]
    body["spec"]["containers"][0] |= {"image": "busybox:1.36", "command": ["sleep", "60"]}
    live.core.create_namespaced_pod(namespace, body)
    objects, version = live.pods().list()
    (pod,) = (each for each in map(read_pod, objects) if each.namespace == namespace)
    assert (pod.phase, pod.scheduler, pod.requests.cpu_millis) == (Phase.PENDING, "berth-test", 10)
    live.bind(pod, nodes[0].name)
    with pytest.raises(BoundError, match="already assigned"):
        live.bind(pod, nodes[-1].name)
    live.write(Note(pod, "Scheduled", "bound by a test"))
    assert _bound_in_watch(live, version, pod).node == nodes[0].name
    live.delete(pod)


def _bound_in_watch(live: Cluster, version: str, pod: Pod) -> Pod:
    """Return the pod as the watch shows it once it is bound."""
    until = time.monotonic() + 60.0
    for event in live.pods().watch(version):
        assert time.monotonic() < until
        if event["type"] == "MODIFIED" and event["object"]["metadata"]["uid"] == pod.uid:
            found = read_pod(event["object"])
            if found.node:
                return found
    raise AssertionError("the watch ended without the binding")
