"""What Crossplane mounts into a function: tls.crt, tls.key and ca.crt, for 127.0.0.1; and what its callers show."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write(folder: Path) -> None:
    """Make them in a folder."""
    now = datetime.now(UTC)
    ca, leaf = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def issue(name: str, key: ec.EllipticCurvePrivateKey, *, is_ca: bool) -> bytes:
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named("ca"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
            .sign(ca, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    (folder / "ca.crt").write_bytes(issue("ca", ca, is_ca=True))
    (folder / "tls.crt").write_bytes(issue("function", leaf, is_ca=False))
    (folder / "tls.key").write_bytes(_pem(leaf))


def shown(folder: Path) -> grpc.ChannelCredentials:
    """Return the credentials of a caller that shows the certificate."""
    ca, crt, key = ((folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=crt)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
