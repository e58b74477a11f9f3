"""Keys of a federation: the server's TLS certificate, and the key pair with which the server authenticates a client."""

import datetime
import ipaddress
import os
from pathlib import Path

from engine.errors import InvalidConfig

CERTIFICATE, KEY, PUBLIC = "certificate.pem", "key.pem", "key.pub"
_YEARS = 2
"""Validity of the certificate, in years."""


def make_server_keys(folder: Path, host: str) -> None:
    """Create a self-signed TLS certificate for this host, with its key. Raises InvalidConfig if a key exists."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    try:
        names.append(x509.IPAddress(ipaddress.ip_address(host)))
    except ValueError:
        names.append(x509.DNSName(host))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectAlternativeName(list(dict.fromkeys(names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(folder / KEY, secret)
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "clients").mkdir(exist_ok=True)


def make_client_keys(folder: Path) -> None:
    """Create a client's secret key (P-384) and its public key for the server. Raises InvalidConfig if a key exists."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    _write(folder / KEY, secret)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / PUBLIC).write_bytes(public + b"\n")


def _write(path: Path, secret: bytes) -> None:
    """Write a new file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise InvalidConfig(f"{path} already exists; move it before you create a new key") from error
    with open(handle, "wb") as file:
        file.write(secret)
