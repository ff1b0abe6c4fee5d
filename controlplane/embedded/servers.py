"""PostgreSQL and Valkey: embedded, or external as set in the environment."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from controlplane.embedded.postgres import (
    DatabaseCluster,
    postgres_url,
    start_postgres,
    wait_for_postgres,
)
from controlplane.embedded.processes import Child, stop_all
from controlplane.embedded.valkey import start_valkey, valkey_url, wait_for_valkey

STOP_TIMEOUT_S = 1.6


@dataclass(frozen=True, slots=True)
class Servers:
    """Addresses of the two servers and the child processes of embedded ones.

    Attributes
    ----------
    database, broker : None if external
    start_broker : start the broker again after it has ended; its data is not needed
    """

    database_url: str
    redis_url: str
    database: Child | None = None
    broker: Child | None = None
    start_broker: Callable[[], Child] | None = None

    @property
    def children(self) -> list[Child]:
        """The embedded servers."""
        return [child for child in (self.broker, self.database) if child is not None]


@contextmanager
def running_servers(
    cluster: DatabaseCluster | None,
    socket_dir: Path,
    log: Callable[[str], Path],
    *,
    is_durable: bool,
) -> Iterator[Servers]:
    """Start the servers that the environment does not set, and stop them at the end.

    `cluster` is None if DATABASE_URL is set.
    """
    children: list[Child] = []

    def start_broker() -> Child:
        children.append(start_valkey(socket_dir, log=log("valkey"), environment=os.environ))
        return children[-1]

    servers = Servers(os.environ.get("DATABASE_URL", ""), os.environ.get("REDIS_URL", ""))
    try:
        if not servers.redis_url:
            broker, url = start_broker(), valkey_url(socket_dir)
            wait_for_valkey(broker, socket_dir)
            servers = replace(servers, redis_url=url, broker=broker, start_broker=start_broker)
        if cluster is not None:
            path = log("postgres")
            database = start_postgres(cluster, socket_dir, log=path, is_durable=is_durable)
            children.append(database)
            wait_for_postgres(database, socket_dir)
            url = postgres_url(socket_dir)
            servers = replace(servers, database_url=url, database=database)
        yield servers
    finally:
        stop_all(children, timeout_s=STOP_TIMEOUT_S)
