"""Keys that two parties agree on, the masks that are made of them, and letters that only one of them can read.

X25519 (RFC 7748) for the agreement, HKDF with SHA-256 (RFC 5869) for keys of one purpose each, ChaCha20 (RFC 8439) as
generator of masks, ChaCha20-Poly1305 for letters. ``cryptography`` is imported where it is used, as in
:mod:`engine.seeds`: what only plans does without it.
"""

import hashlib

import numpy as np

from engine.errors import SecAggFailed

KEY_BYTES = 32
TAG_BYTES = 16
"""How much longer a sealed letter is."""


def public_key(secret: bytes) -> bytes:
    """What belongs to a secret key of X25519, 32 bytes each."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def agreed(secret: bytes, other: bytes, purpose: str) -> bytes:
    """The key of 32 bytes, for one purpose, that the owners of a secret key and of the public key ``other`` both find,
    and nobody else. Raises SumFailed for a public key that would make the result known to all."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    own = X25519PrivateKey.from_private_bytes(secret)
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as error:
        raise SecAggFailed(f"A public key of a secure sum, {other.hex()[:16]}…, is none of X25519") from error
    ends = sorted((own.public_key().public_bytes_raw(), other))
    return HKDF(SHA256(), KEY_BYTES, salt=b"".join(ends), info=purpose.encode()).derive(shared)


def mask(key: bytes, size: int) -> np.ndarray:
    """The mask of a key, uint32 [size], uniform for whoever does not have it. A key makes one mask and nothing else."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(4 * size)), dtype="<u4")


def commitment(seed: bytes) -> bytes:
    """32 bytes that show later that a seed of 32 random bytes is the one that was meant, and do not tell it now."""
    return hashlib.sha256(b"secure sum, commitment" + seed).digest()


def sealed(key: bytes, text: bytes) -> bytes:
    """A letter. A key seals one and no other, so that the nonce may be zero."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(bytes(12), text, None)


def opened(key: bytes, letter: bytes, title: str) -> bytes:
    """What a letter says. title: of the letter, for the sentence. Raises SumFailed if a bit of it, or its key, is not
    what it was when it was sealed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), letter, None)
    except InvalidTag as error:
        raise SecAggFailed(f"{title} was changed on its way, or is for somebody else") from error
