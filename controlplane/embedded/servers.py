"""PostgreSQL and Valkey together: embedded, or those the environment names."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.embedded.postgres import Cluster, postgres_url, start_postgres, wait_for_postgres
from controlplane.embedded.processes import Child, stop_all
from controlplane.embedded.valkey import start_valkey, valkey_url, wait_for_valkey

STOP_PATIENCE_S = 1.6


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the two servers are, and those of them we started."""

    database_url: str
    redis_url: str
    children: tuple[Child, ...]


@contextmanager
def running_servers(
    cluster: Cluster | None,
    socket_dir: Path,
    log: Callable[[str], Path],
    *,
    is_durable: bool,
) -> Iterator[Servers]:
    """Start what the environment does not already name, and stop it at the end.

    `cluster` is None when DATABASE_URL names the database.
    """
    children: list[Child] = []
    database_url = os.environ.get("DATABASE_URL", "")
    redis_url = os.environ.get("REDIS_URL", "")
    try:
        if not redis_url:
            path = log("valkey")
            children.append(start_valkey(socket_dir, log=path, environment=os.environ))
            wait_for_valkey(children[-1], socket_dir)
            redis_url = valkey_url(socket_dir)
        if cluster is not None:
            path = log("postgres")
            children.append(start_postgres(cluster, socket_dir, log=path, is_durable=is_durable))
            wait_for_postgres(children[-1], socket_dir)
            database_url = postgres_url(socket_dir)
        yield Servers(database_url, redis_url, tuple(children))
    finally:
        stop_all(children, patience_s=STOP_PATIENCE_S)
