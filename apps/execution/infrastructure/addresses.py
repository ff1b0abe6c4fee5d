"""Addresses of node servers, and the file descriptors that their connections need."""

import resource
from typing import Final

from apps.common.core.errors import ControlPlaneError

SPARE: Final = 64  # descriptors of a process besides its connections


class AddressError(ControlPlaneError):
    """An address that no server can have; names what is accepted."""


class DescriptorsError(ControlPlaneError):
    """The process may not open enough files; says how many it needs."""


def parse_address(text: str) -> str | tuple[str, int]:
    """Return the path of `unix:PATH`, or the host and port of `tcp:HOST:PORT`.

    Raises
    ------
    AddressError : another form.
    """
    kind, _, rest = text.partition(":")
    host, _, port = rest.rpartition(":")
    if kind == "unix" and rest:
        return rest
    if kind == "tcp" and host and port.isdecimal() and int(port) < 65536:
        return host, int(port)
    raise AddressError(f"address is {text!r}; expected unix:PATH or tcp:HOST:PORT")


def allow_connections(count: int) -> None:
    """Raise the limit of open files so that ``count`` connections fit.

    Raises
    ------
    DescriptorsError : the hard limit is too low.
    """
    needed = count + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise DescriptorsError(
            f"{count:,} connections need {needed:,} open files, but this process may open"
            f" {hard:,}. Raise the hard limit (`ulimit -Hn`, nofile in limits.conf, or"
            " LimitNOFILE of the service), or use fewer nodes."
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
