"""Shadows, and live decisions for them to follow."""

from datetime import timedelta
from typing import Any

import pytest

from apps.inventory.core.cluster_file import parse_cluster
from apps.inventory.services import import_cluster
from apps.scheduling.core import registry
from apps.scheduling.models import Shadow
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import commit
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.shadow_turns import ShadowWorker
from apps.scheduling.services.shadows import start_shadow
from apps.workloads.models import Job
from tests.scheduling.world import ME, claimed, known, proposal, waiting, work

BEST_EFFORT = {"target": {"kind": "best_effort"}}
AT_ONCE = timedelta(0)


def started(policy: str = "expected", **fields: Any) -> Shadow:
    values = {"parameters": {}, "share": 1.0, "until": None, "by": None, **fields}
    return start_shadow(policy=policy, **values)


def uninstall(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Take a policy out of the registry; put back, the others keep their order."""
    kept = {other: entry for other, entry in registry.POLICIES.items() if other != name}
    monkeypatch.setattr(registry, "POLICIES", kept)


def followed(shadow: Shadow, worker: ShadowWorker | None = None) -> Shadow:
    """The shadow after a turn with plenty of time."""
    (worker or ShadowWorker(settled=AT_ONCE)).turn(budget_s=60.0)
    shadow.refresh_from_db()
    return shadow


def hold(copy: Any, *units: int) -> None:
    commit([proposal(claimed(), copy.topology, units)], agent=ME)


def decide(count: int, **fields: Any) -> list[Job]:
    """Let an agent decide on jobs of two applications; returns them."""
    profiled: dict[str, Any] = {"platforms": ("J", "K")}
    applications = known(**profiled), known(base_rate=5e7, error=0.1, **profiled)
    values = {"units_requested": 1, **BEST_EFFORT, **fields}
    jobs = [waiting(applications[i % 2], **values) for i in range(count)]
    work(make_agent("agent-1"))
    return jobs


def two_platforms() -> Any:
    """Ten servers of two platforms; other jobs hold a third of the units."""
    sizes = {"cores": 4, "memory_bytes": 16 * 10**9, "network_bps": 10**9,
             "storage_bytes": 10**12, "idle_watts": 50, "peak_watts": 200}  # fmt: skip
    document = {
        "name": "small",
        "platforms": [{"name": name, **sizes} for name in "JK"],
        "servers": [{"name": f"s-{i}", "platform": "JK"[i % 2], "rack": "r"} for i in range(10)],
    }
    import_cluster(parse_cluster(document))
    copy = read_copy()
    for first in (0, 4, 8, 20, 24):
        hold(copy, first, first + 1, first + 2)
    return copy
