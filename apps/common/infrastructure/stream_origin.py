"""Origin of the event stream, as pages must name it."""

from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})  # names of this machine


def stream_origin(host: str) -> str:
    """Return the origin of the event stream for pages of a host; empty if there is no stream.

    Cookies belong to one name of a machine: a page opened as `localhost` reads the stream as
    `localhost` too, whichever of its names the setting has.

    Parameters
    ----------
    host : the Host header of the request for the page, with or without a port
    """
    origin: str = settings.BERTH_STREAM_ORIGIN
    parts, (domain, _) = urlsplit(origin), split_domain_port(host)
    if parts.hostname not in LOOPBACK or domain.strip("[]") not in LOOPBACK:
        return origin
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{domain}{port}"
