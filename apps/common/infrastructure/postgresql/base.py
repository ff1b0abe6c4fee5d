"""Connections whose health check costs no statement."""

import select
from typing import Any

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """Check a kept connection by its socket first.

    Django sends ``SELECT 1`` before the first statement of each request. A server that ends a
    connection sends the reason or closes the socket, so a socket without anything to read belongs
    to a connection that works.
    """

    def close_if_health_check_failed(self) -> None:
        """Close the connection if ``SELECT 1`` fails; sent only if its socket can be read."""
        if self.connection is not None and not _can_be_read(self.connection):
            self.health_check_done = True
        super().close_if_health_check_failed()


def _can_be_read(connection: Any) -> bool:
    """Return True if the socket of a connection has something to read, or is closed."""
    if connection.closed:
        return True
    socket = select.poll()
    socket.register(connection.fileno(), select.POLLIN)
    return bool(socket.poll(0))
