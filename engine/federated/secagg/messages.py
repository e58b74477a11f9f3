"""Messages of an aggregation, in the order of its phases."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.federated.secagg import shamir


@dataclass(frozen=True)
class PublicKeys:
    """The first message: two public keys of 32 bytes, one for pairwise masks and one for encryption."""

    masks: bytes
    encryption: bytes

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.masks) + len(self.encryption)


@dataclass(frozen=True)
class EncryptedShares:
    """The second message.

    Attributes:
        ciphertexts: Encrypted shares for each other client.
        commitment: Commitment to the seed of the self mask, for the server.
    """

    ciphertexts: Mapping[int, bytes]
    commitment: bytes

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.commitment) + sum(map(len, self.ciphertexts.values()))


@dataclass(frozen=True)
class UnmaskRequest:
    """The server's request for shares.

    Attributes:
        arrived: Clients whose uploads arrived; requests the shares of their seeds.
        dropped: Clients that dropped out; requests the shares of their keys.
    """

    arrived: tuple[int, ...]
    dropped: tuple[int, ...]


@dataclass(frozen=True)
class UnmaskResponse:
    """The fourth message: shares of seeds and of keys, by the client that they belong to."""

    seeds: Mapping[int, int] = field(repr=False)
    keys: Mapping[int, int] = field(repr=False)

    @property
    def size(self) -> int:
        """In bytes."""
        return shamir.SHARE_BYTES * (len(self.seeds) + len(self.keys))
