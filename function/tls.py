"""Certificates of the server, as they are whenever somebody connects: a new Secret needs no restart.

The SDK's own loader reads them once. A file that cannot be read, or a certificate without its key, as between two
writes, changes nothing: gRPC goes on with what it had.
"""

from pathlib import Path

import grpc


def rotating(directory: str) -> grpc.ServerCredentials:
    """Return mTLS credentials from tls.crt, tls.key and ca.crt of a directory; callers must show a certificate.

    Raises:
        OSError: A file cannot be read now.
    """
    folder = Path(directory)
    held = _read(folder)

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal held
        try:
            found = _read(folder)
        except OSError:
            return None
        if found == held:
            return None
        held = found
        return _configuration(found)

    return grpc.dynamic_ssl_server_credentials(_configuration(held), renewed, require_client_authentication=True)


def _read(folder: Path) -> tuple[bytes, ...]:
    return tuple((folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))


def _configuration(found: tuple[bytes, ...]) -> grpc.ServerCertificateConfiguration:
    certificate, key, authority = found
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)
