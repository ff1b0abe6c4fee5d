"""Heartbeats of agents: kept in Valkey, and stored by the sweep."""

from datetime import UTC, datetime

from apps.common.infrastructure.database import database_now, fetch_rows
from apps.execution.core.agent.wire import MachineUsage
from apps.execution.infrastructure.agent_readings import heartbeats, note_heartbeat
from apps.inventory import services as inventory
from apps.inventory.core.backends import AGENT
from apps.inventory.selectors import cluster_time


def beat(server_id: int, usage: MachineUsage) -> None:
    """Keep a heartbeat; the sweep stores it."""
    note_heartbeat(server_id, usage, at_s=database_now().timestamp())


def store_heartbeats() -> int:
    """Store the fresh heartbeats of all agents in one statement; returns their number."""
    heard = heartbeats(now_s=database_now().timestamp())
    if not heard:
        return 0
    watts = dict(
        fetch_rows(
            """SELECT id, ARRAY[idle_watts, peak_watts] FROM inventory_server
               WHERE id = ANY(%s) AND backend = %s""",
            [list(heard), AGENT],
        )
    )
    now = cluster_time()
    by_second: dict[int, list[inventory.ServerReport]] = {}
    for server, (idle, peak) in watts.items():
        usage = heard[server].usage
        by_second.setdefault(int(heard[server].at_s), []).append(
            inventory.ServerReport(
                server_id=server,
                cpu_share=usage.cpu_share,
                memory_share=usage.memory_share,
                network_share=0.0,
                storage_share=usage.storage_share,
                watts=idle + (peak - idle) * usage.cpu_share,
            )
        )
    for second, reports in by_second.items():
        at = min(now.at, datetime.fromtimestamp(second, UTC))
        inventory.record_readings(reports, backend=AGENT, at=at, cluster_s=now.cluster_s)
    return len(watts)
