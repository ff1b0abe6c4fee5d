"""Writes of the inventory: servers, units, the clock, readings and the change log."""

from apps.inventory.services.allocation import (
    Usage,
    allocate_units,
    lock_free_units,
    lock_servers,
    lock_units,
    owners_of,
    release_units,
    unit_chips,
)
from apps.inventory.services.clock import (
    record_cluster_time,
    save_clock,
    start_clock,
    stop_clock,
    take_step_back,
)
from apps.inventory.services.machines import MachineShape, register_machine
from apps.inventory.services.servers import (
    NewChange,
    ServerReport,
    append_changes,
    import_cluster,
    mark_silent_servers,
    prune_changes,
    record_frames,
    record_readings,
    set_server_state,
)

__all__ = [
    "MachineShape",
    "NewChange",
    "ServerReport",
    "Usage",
    "allocate_units",
    "append_changes",
    "import_cluster",
    "lock_free_units",
    "lock_servers",
    "lock_units",
    "mark_silent_servers",
    "owners_of",
    "prune_changes",
    "record_cluster_time",
    "record_frames",
    "record_readings",
    "register_machine",
    "release_units",
    "save_clock",
    "set_server_state",
    "start_clock",
    "stop_clock",
    "take_step_back",
    "unit_chips",
]
