"""The address of a client behind proxies."""

import pytest

from apps.common.core.addresses import client_address, network_of, read_networks

PROXIES = read_networks("10.0.0.0/8, 192.0.2.1")


@pytest.mark.parametrize(
    ("remote", "forwarded", "address"),
    [
        ("198.51.100.7", "", "198.51.100.7"),
        ("198.51.100.7", "1.1.1.1", "198.51.100.7"),  # not a proxy: its header does not count
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.7", "198.51.100.7"),  # 1.1.1.1 is the client's claim
        ("10.0.0.1", "198.51.100.7, 10.2.3.4, 192.0.2.1", "198.51.100.7"),
        ("10.0.0.1", "10.2.3.4", "10.2.3.4"),  # the client is inside
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7, garbage", "10.0.0.1"),
        ("::ffff:10.0.0.1", "2001:db8::7", "2001:db8::7"),
        ("", "198.51.100.7", ""),
    ],
)
def test_only_trusted_proxies_name_the_client(remote: str, forwarded: str, address: str) -> None:
    assert client_address(remote, forwarded, PROXIES) == address


def test_without_trusted_proxies_the_header_is_ignored() -> None:
    assert client_address("10.0.0.1", "198.51.100.7", ()) == "10.0.0.1"


def test_a_proxy_that_is_no_address_is_named() -> None:
    with pytest.raises(ValueError, match="front-end"):
        read_networks("10.0.0.0/8,front-end")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_ipv6_clients_are_counted_by_their_network(address: str, network: str) -> None:
    assert network_of(address) == network
