"""Reads of the shared cluster state, as arrays for agents and rows for pages."""

from apps.inventory.selectors.change_log import (
    LogEntry,
    changes_since,
    last_change_s,
    log_position,
    newest_change,
    topology_version,
)
from apps.inventory.selectors.clock import (
    STEP_EVENT,
    ClockStep,
    ClusterTime,
    cluster,
    cluster_now,
    cluster_time,
    is_live,
    last_clock_step,
    lock_cluster,
)
from apps.inventory.selectors.cluster_files import contradictions, known_servers
from apps.inventory.selectors.default_policy import (
    applied_policy,
    applied_policy_name,
    lock_applied_policy,
)
from apps.inventory.selectors.frames import recorded_after, recorded_before
from apps.inventory.selectors.servers import (
    constraint_warnings,
    has_servers_with,
    platforms,
    server_by,
    server_names,
    servers,
    silent_servers,
    topology,
    units,
)
from apps.inventory.selectors.usage import (
    LAYERS,
    ClusterTotals,
    Layer,
    cluster_totals,
    map_layer,
    server_usage,
)

__all__ = [
    "LAYERS",
    "STEP_EVENT",
    "ClockStep",
    "ClusterTime",
    "ClusterTotals",
    "Layer",
    "LogEntry",
    "applied_policy",
    "applied_policy_name",
    "changes_since",
    "cluster",
    "cluster_now",
    "cluster_time",
    "cluster_totals",
    "constraint_warnings",
    "contradictions",
    "has_servers_with",
    "is_live",
    "known_servers",
    "last_change_s",
    "last_clock_step",
    "lock_applied_policy",
    "lock_cluster",
    "log_position",
    "map_layer",
    "newest_change",
    "platforms",
    "recorded_after",
    "recorded_before",
    "server_by",
    "server_names",
    "server_usage",
    "servers",
    "silent_servers",
    "topology",
    "topology_version",
    "units",
]
