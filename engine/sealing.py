"""Authenticated encryption of what a run must keep on disk and no other program may read, with a key of the run.

The state of a run measures its noise, its samples and single gradients: from it, the noise could be subtracted. Content
is encrypted in chunks by ChaCha20-Poly1305 (RFC 8439). Counter and last chunk are part of each nonce, so that no chunk
can be left out, moved or repeated (STREAM; Hoang, Reyhanitabar, Rogaway and Vizár 2015). A random salt gives each
content a key of its own, so no nonce is used twice with one key.
"""

import hmac
import secrets

_SALT, _TAG = 32, 16
_CHUNK = 2**26
"""Bytes of a chunk; one call of the cipher takes at most 2³¹ − 1 bytes."""


class SealBroken(ValueError):
    """The content was sealed with another key or for another place, or it was changed."""


def seal(key: bytes, content: bytes | memoryview, place: bytes) -> bytes:
    """Encrypt content.

    Args:
        key: Key of the run, 32 bytes.
        content: The content.
        place: What the content belongs to, such as run, step and format; it cannot be opened as anything else.
    """
    salt = secrets.token_bytes(_SALT)
    cipher, view = _cipher(key, salt), memoryview(content)
    last = max(0, len(view) - 1) // _CHUNK
    chunks = (
        cipher.encrypt(_nonce(number, last), view[number * _CHUNK : (number + 1) * _CHUNK], place)
        for number in range(last + 1)
    )
    return b"".join((salt, *chunks))


def unseal(key: bytes, sealed: bytes, place: bytes) -> bytes:
    """Decrypt what :func:`seal` returned for the same key and place. Raises SealBroken."""
    from cryptography.exceptions import InvalidTag

    cipher, view, chunk = _cipher(key, sealed[:_SALT]), memoryview(sealed)[_SALT:], _CHUNK + _TAG
    last = max(0, len(view) - 1) // chunk
    try:
        return b"".join(
            cipher.decrypt(_nonce(number, last), view[number * chunk : (number + 1) * chunk], place)
            for number in range(last + 1)
        )
    except InvalidTag as error:
        raise SealBroken("it was sealed with another key or for another place, or it was changed") from error


def _cipher(key: bytes, salt: bytes):  # type: ignore[no-untyped-def]
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(hmac.digest(key, b"seal" + salt, "sha256"))


def _nonce(number: int, last: int) -> bytes:
    return number.to_bytes(11, "big") + bytes([number == last])
