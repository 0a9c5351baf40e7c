"""Certificates of the server, read again at every new connection: a renewed Secret needs no restart.

The SDK's own loader reads them once. While a file cannot be read, or a certificate does not match its key, as between
two writes, gRPC goes on with the previous ones.
"""

from pathlib import Path

import grpc


def load_credentials(directory: str) -> grpc.ServerCredentials:
    """Returns mTLS credentials from tls.crt, tls.key and ca.crt of a directory; callers must show a certificate.

    Raises:
        OSError: A file cannot be read now.
    """
    folder = Path(directory)
    current = _read(folder)

    def reload() -> grpc.ServerCertificateConfiguration | None:
        nonlocal current
        try:
            files = _read(folder)
        except OSError:
            return None
        if files == current:
            return None
        current = files
        return _configure(files)

    return grpc.dynamic_ssl_server_credentials(_configure(current), reload, require_client_authentication=True)


def _read(folder: Path) -> tuple[bytes, ...]:
    return tuple((folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))


def _configure(files: tuple[bytes, ...]) -> grpc.ServerCertificateConfiguration:
    certificate, key, authority = files
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)
