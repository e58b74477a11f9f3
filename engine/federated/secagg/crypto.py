"""Cryptographic primitives of secure aggregation: key agreement, masks, commitments and encryption.

X25519 (RFC 7748) is the key agreement, HKDF with SHA-256 (RFC 5869) derives one key for each purpose, ChaCha20 (RFC
8439) generates masks, and ChaCha20-Poly1305 encrypts shares. Functions import ``cryptography`` on use, as in
:mod:`engine.seeds`: planning does not need it.
"""

import hashlib

import numpy as np

from engine.errors import SecAggFailed

KEY_BYTES = 32
"""Bytes of a derived key."""
TAG_BYTES = 16
"""Bytes that encryption adds to a text: its authentication tag."""


def public_key(secret: bytes) -> bytes:
    """Return the public key of an X25519 secret key, 32 bytes each."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def agree(secret: bytes, other: bytes, purpose: str) -> bytes:
    """Return the key that two clients share, 32 bytes, which no other party can derive.

    Args:
        secret: Secret key of one client, 32 bytes.
        other: Public key of the other client, 32 bytes.
        purpose: Purpose of the key; each purpose has its own key.

    Raises:
        SecAggFailed: If the public key would make the shared key predictable.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    own = X25519PrivateKey.from_private_bytes(secret)
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as error:
        raise SecAggFailed(f"Public key {other.hex()[:16]}… in secure aggregation is not valid for X25519") from error
    ends = sorted((own.public_key().public_bytes_raw(), other))
    return HKDF(SHA256(), KEY_BYTES, salt=b"".join(ends), info=purpose.encode()).derive(shared)


def mask(key: bytes, size: int) -> np.ndarray:
    """Return the mask of a key, uint32 [size], which is uniform to a party without the key.

    A key generates a single mask and has no other use.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(4 * size)), dtype="<u4")


def commitment(seed: bytes) -> bytes:
    """Return a commitment to a seed of 32 random bytes, 32 bytes: it hides the seed, and verifies it later."""
    return hashlib.sha256(b"secure sum, commitment" + seed).digest()


def encrypt(key: bytes, text: bytes) -> bytes:
    """Return the ciphertext of a text; a key encrypts a single text, so the nonce may be zero."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(bytes(12), text, None)


def decrypt(key: bytes, ciphertext: bytes, title: str) -> bytes:
    """Return the text of a ciphertext.

    Args:
        key: The key that encrypted it.
        ciphertext: The ciphertext.
        title: Names the ciphertext in the error.

    Raises:
        SecAggFailed: If the ciphertext was modified, or the key is another one.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), ciphertext, None)
    except InvalidTag as error:
        raise SecAggFailed(f"{title} was modified in transit, or is for another client") from error
