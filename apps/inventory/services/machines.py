"""Registration of real machines as servers."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Max

from apps.common.core.errors import ConflictError
from apps.inventory import selectors
from apps.inventory.core.backends import AGENT
from apps.inventory.models import ChangeKind, Platform, Rack, ResourceUnit, Server
from apps.inventory.services.servers import NewChange, append_changes

GIBIBYTE = 2**30


@dataclass(frozen=True, slots=True)
class MachineShape:
    """What a machine has, as its agent reports it.

    Attributes
    ----------
    cores : number of cores that jobs may use; its units name them 0, 1, 2 ...
    rack : name of its rack
    kind : name of its platform; empty = from its sockets, cores and memory
    l3_groups : L3 cache of each core, from 0; empty = one, or not known
    """

    cores: int
    sockets: int
    memory_bytes: int
    network_bps: int
    storage_bytes: int
    idle_watts: float = 0.0
    peak_watts: float = 0.0
    rack: str = "machines"
    kind: str = ""
    l3_groups: tuple[int, ...] = ()

    @property
    def platform(self) -> str:
        """Name of the platform of such machines."""
        if self.kind:
            return self.kind
        gibibytes = max(1, round(self.memory_bytes / GIBIBYTE))
        return f"machine-{self.sockets}x{self.cores}c-{gibibytes}g"


def register_machine(
    name: str,
    shape: MachineShape,
    *,
    backend: str = AGENT,
    labels: Mapping[str, str] | None = None,
) -> Server:
    """Add a machine as a server, or change the platform and labels of a known one.

    Parameters
    ----------
    labels : that the server has from now on; None = keep them, and the platform

    Raises
    ------
    ConflictError : the server belongs to another backend, or has other cores now.
    """
    with transaction.atomic():
        selectors.lock_cluster()
        server = Server.objects.select_for_update().filter(name=name).first()
        if server is None:
            return _added(name, shape, backend, labels or {})
        if server.backend != backend:
            raise ConflictError(f"The server {name} is {server.backend}; choose another name.")
        if server.cores != shape.cores:
            raise ConflictError(
                f"The server {name} was registered with {server.cores} cores, not {shape.cores};"
                " register the machine under another name, or with as many cores."
            )
        if labels is not None:
            _update(server, shape, labels)
        if backend == AGENT and server.l3_groups != list(shape.l3_groups):
            server.l3_groups = list(shape.l3_groups)
            server.save(update_fields=["l3_groups", "updated_at"])
        return server


def _update(server: Server, shape: MachineShape, labels: Mapping[str, str]) -> None:
    """Change the platform, memory and labels of a server; never below the memory in use."""
    platform = _platform(shape, server.backend)
    memory_bytes = max(shape.memory_bytes, server.used_memory_bytes)
    if (server.platform, server.memory_bytes, server.labels) == (platform, memory_bytes, labels):
        return
    server.platform, server.memory_bytes, server.labels = platform, memory_bytes, dict(labels)
    server.generation += 1
    server.save(update_fields=["platform", "memory_bytes", "labels", "generation", "updated_at"])
    now = selectors.cluster_time()
    append_changes([NewChange(ChangeKind.TOPOLOGY, server.pk)], at=now.at, cluster_s=now.cluster_s)


def _added(name: str, shape: MachineShape, backend: str, labels: Mapping[str, str]) -> Server:
    platform = _platform(shape, backend)
    server = Server.objects.create(
        name=name,
        platform=platform,
        rack=Rack.objects.get_or_create(name=shape.rack)[0],
        backend=backend,
        labels=dict(labels),
        cores=shape.cores,
        l3_groups=list(shape.l3_groups),
        memory_bytes=shape.memory_bytes,
        network_bps=shape.network_bps,
        storage_bytes=shape.storage_bytes,
        idle_watts=shape.idle_watts,
        peak_watts=shape.peak_watts,
    )
    ResourceUnit.objects.bulk_create(
        ResourceUnit(server=server, core=core) for core in range(shape.cores)
    )
    now = selectors.cluster_time()
    append_changes([NewChange(ChangeKind.TOPOLOGY, server.pk)], at=now.at, cluster_s=now.cluster_s)
    return server


def _platform(shape: MachineShape, backend: str) -> Platform:
    """Return the platform of machines of this shape; no server of another backend has it.

    Raises
    ------
    ConflictError : one has.
    """
    name = shape.platform
    if Server.objects.filter(platform__name=name).exclude(backend=backend).exists():
        raise ConflictError(f"The platform {name} belongs to servers of another backend.")
    last = Platform.objects.aggregate(last=Max("rank"))["last"]
    platform, _ = Platform.objects.get_or_create(
        name=name,
        defaults={
            "cores": shape.cores,
            "memory_bytes": shape.memory_bytes,
            "network_bps": shape.network_bps,
            "storage_bytes": shape.storage_bytes,
            "idle_watts": shape.idle_watts,
            "peak_watts": shape.peak_watts,
            "rank": 0 if last is None else last + 1,
        },
    )
    return platform
