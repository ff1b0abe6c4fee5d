"""The backend of Kubernetes for its contract: the official client and a fake API server."""

import pytest

from apps.execution.backends.kubernetes.cluster import Cluster
from apps.execution.core.kubernetes.values import Pod
from apps.execution.models import JobSample, KubernetesPod
from apps.workloads.models import Job
from tests.contracts.execution.worlds import BackendWorld, server_of
from tests.execution.kubernetes.conftest import World
from tests.execution.kubernetes.objects import ended, runs


class KubernetesWorld(BackendWorld):
    """Two nodes of a fake API server; this class plays their kubelets."""

    name = "kubernetes"

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world, self._monkeypatch = world, monkeypatch
        self._pods = 0

    def begin(self) -> Job:
        return self.until_state(self._world.job(self._bound()), "running")

    def finish(self, job: Job) -> None:
        self._world.fake.change("pods", self._key(job), ended(0))

    def begin_refused(self) -> Job:
        real = Cluster.bind

        def too_late(cluster: Cluster, pod: Pod, node: str) -> None:
            """Let another scheduler bind the pod first."""
            other = "n1" if node == "n2" else "n2"
            self._world.fake.change(
                "pods", f"{pod.namespace}/{pod.name}", {"spec": {"nodeName": other}}
            )
            real(cluster, pod, node)

        self._monkeypatch.setattr(Cluster, "bind", too_late)
        return self._world.job(self._bound())

    def turn(self) -> None:
        self._kubelets()
        self._world.turns(0.02)

    def stop(self) -> None:
        self._world.backend.stop()

    def start(self) -> None:
        self._world.restart()

    def starts(self, job: Job) -> int:
        path = f"/pods/{self._key(job).split('/')[1]}/binding"
        return sum(asked.endswith(path) for _, asked, _ in self._world.fake.requests)

    def runs_on(self, job: Job) -> set[str]:
        pod = self._world.fake.objects["pods"].get(self._key(job))
        if pod is None or pod["status"]["phase"] != "Running":
            return set()
        return {str(pod["spec"]["nodeName"])}

    def is_stopped(self, job: Job) -> bool:
        return False

    def has_usage(self, job: Job) -> bool:
        return JobSample.objects.filter(job=job).exists()

    def lose_server(self, job: Job) -> None:
        silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        self._world.fake.change("nodes", server_of(job).name, silent)

    def _bound(self) -> str:
        """Create a pod and let Berth bind it; returns its key."""
        self._pods += 1
        key = self._world.submit(f"p{self._pods}")
        self._world.until_bound(key)
        return key

    def _key(self, job: Job) -> str:
        row = KubernetesPod.objects.get(job=job)
        return f"{row.namespace}/{row.name}"

    def _kubelets(self) -> None:
        """Start the pods that are bound, and remove those that are deleted."""
        for key, pod in list(self._world.fake.objects["pods"].items()):
            if pod["metadata"].get("deletionTimestamp"):
                self._world.fake.remove("pods", key)
            elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                self._world.fake.change("pods", key, runs())
