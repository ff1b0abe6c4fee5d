"""What Berth knows of the pods of Kubernetes."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from apps.common.infrastructure.database import fetch_rows
from apps.execution.core.kubernetes.reconcile import Known
from apps.inventory.core.backends import KUBERNETES
from apps.inventory.models import Server
from apps.workloads.core.lifecycle import JobState

_KNOWN: Final = """
SELECT p.uid, p.namespace, p.name, j.id, l.id, j.state,
       j.cancel_requested OR coalesce(l.cancel_requested, false), p.pinned, v.name,
       coalesce(l.state = 'running', false), coalesce(v.state IN ('draining', 'down'), false)
FROM execution_kubernetespod p
JOIN workloads_job j ON j.id = p.job_id
LEFT JOIN execution_launch l ON l.job_id = j.id AND l.state IN ('requested', 'running')
LEFT JOIN inventory_server v ON v.id = (l."order"->'parts'->0->>0)::bigint
WHERE p.is_open ORDER BY p.id
"""


@dataclass(frozen=True, slots=True)
class KnownPod:
    """One open pod in Berth; ``launch`` is its live launch."""

    uid: str
    namespace: str
    name: str
    job: UUID
    launch: int | None
    known: Known

    @property
    def path(self) -> str:
        """Namespace and name, as in messages."""
        return f"{self.namespace}/{self.name}"


def known_pods() -> dict[str, KnownPod]:
    """Return the open pods by uid."""
    return {
        uid: KnownPod(
            uid, namespace, name, job, launch,
            Known(JobState(state), stop, pinned, node, running, closed),
        )
        for uid, namespace, name, job, launch, state, stop, pinned, node, running, closed in (
            fetch_rows(_KNOWN)
        )
    }  # fmt: skip


def kubernetes_servers() -> dict[str, Server]:
    """Return the servers that are nodes of Kubernetes, by name."""
    rows = Server.objects.filter(backend=KUBERNETES).select_related("platform").order_by("id")
    return {row.name: row for row in rows}
