"""Which address this machine has in its local network."""

import ipaddress
import socket

from engine.errors import EpsilonError

_ELSEWHERE = ("192.0.2.1", 9)
"""An address that nobody has (RFC 5737). Nothing is sent to it: the system is asked which way it would go."""


def local_address() -> str:
    """The IPv4 address from which this machine would leave its network; 127.0.0.1 where it is in none.

    Raises EpsilonError where that is an address that the whole internet reaches.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
            found = str(probe.getsockname()[0])
        except OSError:
            found = "127.0.0.1"
    if not ipaddress.IPv4Address(found).is_private:
        raise EpsilonError(
            f"This machine's address, {found}, is not of a local network: the poll would be open to everybody. "
            "EPSILON_POLL_ADDRESS=ADDRESS:PORT names another address."
        )
    return found
