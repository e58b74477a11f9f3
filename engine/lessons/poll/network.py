"""Address of this machine in its local network."""

import ipaddress
import socket

from engine.errors import EpsilonError

_ELSEWHERE = ("192.0.2.1", 9)
"""A reserved test address (RFC 5737). Nothing is sent to it; the system only selects a network interface for it."""


def local_address() -> str:
    """Return the IPv4 address of this machine in its local network, or 127.0.0.1 without a network.

    Raises:
        EpsilonError: If the address is public, so that the internet could reach the poll.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
            address = str(probe.getsockname()[0])
        except OSError:
            address = "127.0.0.1"
    if not ipaddress.IPv4Address(address).is_private:
        raise EpsilonError(
            f"The address of this machine, {address}, is not in a local network: the poll would be public. "
            "Set EPSILON_POLL_ADDRESS=ADDRESS:PORT to use another address."
        )
    return address
