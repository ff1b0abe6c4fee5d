"""Allocation of resource units and server capacity to callers that keep their own records.

All functions run in the caller's transaction. The caller locks units before servers.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from apps.common.infrastructure.database import fetch_prepared, fetch_rows, number_array
from apps.inventory.models import ServerState


class Usage(NamedTuple):
    """Units and capacity that one allocation uses on one server."""

    server_id: int
    cores: int
    memory_bytes: int
    network_bps: int
    storage_bytes: int


def lock_servers(server_ids: Iterable[int]) -> dict[int, tuple[float, float, float]]:
    """Lock the open servers among these and return their free capacity.

    Returns
    -------
    Free memory bytes, network bits/s and storage bytes by server id, oversubscription included.
    """
    rows = fetch_prepared(
        """SELECT id, memory_bytes * oversubscription - used_memory_bytes,
                  network_bps * oversubscription - used_network_bps,
                  storage_bytes * oversubscription - used_storage_bytes
           FROM inventory_server WHERE id = ANY(%s) AND state = %s ORDER BY id FOR UPDATE""",
        [number_array(sorted(set(server_ids))), ServerState.ACTIVE],
    )
    return {server: (memory, network, storage) for server, memory, network, storage in rows}


def lock_units(unit_ids: Iterable[int]) -> dict[int, int | None]:
    """Lock units and return the allocation that holds each, None if it is free."""
    rows = fetch_prepared(
        """SELECT id, allocation_id FROM inventory_resourceunit
           WHERE id = ANY(%s) ORDER BY id FOR UPDATE""",
        [number_array(sorted(set(unit_ids)))],
    )
    return dict(rows)


def owners_of(unit_ids: Iterable[int]) -> dict[int, int | None]:
    """Return the allocation that holds each unit, None if it is free; locks nothing."""
    ids = list(unit_ids)
    if not ids:
        return {}
    return dict(
        fetch_rows(
            "SELECT id, allocation_id FROM inventory_resourceunit WHERE id = ANY(%s)", [ids]
        )
    )


def unit_chips(server_ids: Iterable[int]) -> dict[int, dict[int, int]]:
    """Return the L3 group of each unit, by server; only of servers that have several groups."""
    ids = sorted(set(server_ids))
    if not ids:
        return {}
    chips: dict[int, dict[int, int]] = defaultdict(dict)
    for server, unit, group in fetch_rows(
        """SELECT s.id, u.id, s.l3_groups[u.core + 1]
           FROM inventory_server s JOIN inventory_resourceunit u ON u.server_id = s.id
           WHERE s.id = ANY(%s) AND cardinality(s.l3_groups) > 0 ORDER BY u.id""",
        [ids],
    ):
        chips[server][unit] = group
    return dict(chips)


def lock_free_units(server_ids: Sequence[int]) -> dict[int, list[int]]:
    """Lock the free units of servers and return their ids by server, in ascending order."""
    units: dict[int, list[int]] = defaultdict(list)
    for unit, server in fetch_rows(
        """SELECT id, server_id FROM inventory_resourceunit
           WHERE server_id = ANY(%s) AND allocation_id IS NULL ORDER BY id FOR UPDATE""",
        [server_ids],
    ):
        units[server].append(unit)
    return units


def allocate_units(owners: Mapping[int, int], usages: Sequence[Usage]) -> None:
    """Assign free units (id -> allocation) and add their usage; all rows are locked.

    Raises
    ------
    RuntimeError : a unit was not free.
    """
    allocated = fetch_prepared(
        """UPDATE inventory_resourceunit AS u SET allocation_id = d.owner, version = u.version + 1
           FROM unnest(%s::bigint[], %s::bigint[]) AS d(unit, owner)
           WHERE u.id = d.unit AND u.allocation_id IS NULL RETURNING u.id""",
        [number_array(owners), number_array(owners.values())],
    )
    if len(allocated) != len(owners):
        raise RuntimeError(f"{len(owners) - len(allocated)} locked units were not free")
    fetch_prepared(_ADD_USAGE.format(sign="+"), _columns(usages))


def release_units(
    unit_ids: Iterable[int], *, allocation_ids: Sequence[int], usages: Sequence[Usage]
) -> None:
    """Lock and free the units of allocations, and subtract their usage from their servers."""
    units = number_array(sorted(unit_ids))
    fetch_prepared(
        "SELECT FROM inventory_resourceunit WHERE id = ANY(%s) ORDER BY id FOR UPDATE", [units]
    )
    fetch_prepared(
        "SELECT FROM inventory_server WHERE id = ANY(%s) ORDER BY id FOR UPDATE",
        [number_array(sorted({usage.server_id for usage in usages}))],
    )
    fetch_prepared(
        """UPDATE inventory_resourceunit SET allocation_id = NULL, version = version + 1
           WHERE id = ANY(%s) AND allocation_id = ANY(%s)""",
        [units, number_array(allocation_ids)],
    )
    fetch_prepared(_ADD_USAGE.format(sign="-"), _columns(usages))


_ADD_USAGE = """
UPDATE inventory_server AS s SET used_cores = used_cores {sign} d.cores,
       used_memory_bytes = used_memory_bytes {sign} d.memory,
       used_network_bps = used_network_bps {sign} d.network,
       used_storage_bytes = used_storage_bytes {sign} d.storage
FROM (SELECT server, sum(cores) AS cores, sum(memory) AS memory, sum(network) AS network,
             sum(storage) AS storage
      FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
           AS t(server, cores, memory, network, storage)
      GROUP BY server) AS d
WHERE s.id = d.server
"""


def _columns(usages: Sequence[Usage]) -> list[str]:
    return [number_array(usage[i] for usage in usages) for i in range(len(Usage._fields))]
