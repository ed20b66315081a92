"""Certificates for tests, made on demand, each with a key of its own."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """Signs certificates; ``file`` is its own certificate."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    file: Path

    def issue(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Issue a certificate for localhost and 127.0.0.1; return its file and its key's."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        builder = _builder(name, self.certificate.subject, key.public_key())
        certificate = builder.add_extension(names, critical=False).sign(self.key, hashes.SHA256())
        files = folder / f"{name}.crt", folder / f"{name}.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(key_bytes(key))
        files[1].chmod(0o600)
        return files


def authority(folder: Path, name: str = "authority") -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _builder(name, subject, key.public_key())
    certificate = builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    ).sign(key, hashes.SHA256())
    file = folder / f"{name}.crt"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(certificate, key, file)


def key_bytes(key: ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )


def locked_key(file: Path) -> Path:
    """Write a key with a password."""
    file.write_bytes(key_bytes(ec.generate_private_key(ec.SECP256R1()), b"secret"))
    return file


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )
