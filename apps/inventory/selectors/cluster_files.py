"""Servers of a cluster file that exist already, and fields that contradict the inventory."""

from typing import Final

from apps.common.core.errors import FieldProblem
from apps.inventory.core.cluster_file import ClusterSpec
from apps.inventory.models import Platform, Server


def known_servers(spec: ClusterSpec) -> dict[str, Server]:
    """Existing servers of a cluster file, by name."""
    names = [server.name for server in spec.servers]
    rows = Server.objects.filter(name__in=names).select_related("platform", "rack")
    return {row.name: row for row in rows}


def contradictions(spec: ClusterSpec) -> list[FieldProblem]:
    """Fields of a cluster file that contradict existing platforms and servers.

    An import does not change existing ones, so the inventory would differ from the file.
    """
    problems = []
    platforms = {row.name: row for row in Platform.objects.all()}
    for i, platform in enumerate(spec.platforms):
        if row := platforms.get(platform.name):
            problems += [
                _contradiction(f"/platforms/{i}/{key}", getattr(row, key), getattr(platform, key))
                for key in _FIGURES
                if getattr(row, key) != getattr(platform, key)
            ]
    known = known_servers(spec)
    for i, server in enumerate(spec.servers):
        if existing := known.get(server.name):
            present = {"platform": existing.platform.name, "rack": existing.rack.name}
            problems += [
                _contradiction(f"/servers/{i}/{key}", value, getattr(server, key))
                for key, value in present.items()
                if getattr(server, key) != value
            ]
    return problems


_FIGURES: Final = (
    *("cores", "memory_bytes", "network_bps", "storage_bytes"),
    *("idle_watts", "peak_watts"),
)


def _contradiction(pointer: str, present: object, given: object) -> FieldProblem:
    detail = f"expected {present!r} as in the inventory (or a new name), got {given!r}"
    return FieldProblem(pointer, "otherwise", detail)
