"""The address of a client behind proxies."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


def read_networks(text: str) -> tuple[Network, ...]:
    """Parse addresses and networks separated by commas.

    Raises
    ------
    ValueError : names the part that is neither an address nor a network.
    """
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def client_address(remote: str, forwarded: str, trusted: Sequence[Network]) -> str:
    """Return the address of the client, or "" if it is unknown.

    Parameters
    ----------
    remote : address of the peer of the connection; empty for a Unix socket
    forwarded : value of ``X-Forwarded-For``; every proxy appends the address of its peer
    trusted : networks of the proxies that may set the header

    The header counts only if the peer is trusted. It is read from the right: the first address
    that is not a trusted proxy is the client. What stands left of it is the client's own claim.
    """
    peer = _parse(remote)
    if peer is None:
        return ""
    for part in reversed(forwarded.split(",")):
        if not _is_trusted(peer, trusted):
            break
        hop = _parse(part)
        if hop is None:
            break
        peer = hop
    return str(peer)


def network_of(address: str) -> str:
    """Return what one client can choose its addresses from: itself, or the /64 of IPv6."""
    parsed = _parse(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed, 64), strict=False))
    return address


def _parse(text: str) -> Address | None:
    try:
        parsed = ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)
