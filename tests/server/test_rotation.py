"""Certificates that change while the function runs: new connections get the new ones."""

import shutil
from pathlib import Path

import grpc
import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1.run_function_pb2_grpc import FunctionRunnerServiceStub

from tests.server import certificates as made
from tests.server.processes import Running, started


def _call(server: Running, folder: Path) -> None:
    """Call over a connection of its own, as who holds the certificates of this folder."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    with grpc.secure_channel(server.address, made.shown(folder), options) as channel:
        FunctionRunnerServiceStub(channel).RunFunction(fnv1.RunFunctionRequest(), timeout=10)


def _replace(folder: Path, by: Path, *names: str) -> None:
    for name in names:
        shutil.copy(by / name, folder / name)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return a folder to be changed, and the old and the new certificates."""
    old, new, mounted = (tmp_path / name for name in ("old", "new", "mounted"))
    for folder in (old, new):
        folder.mkdir()
        made.write(folder)
    shutil.copytree(old, mounted)
    return mounted, old, new


def test_uses_new_certificates_without_restart(tmp_path: Path, folders: tuple[Path, Path, Path]) -> None:
    mounted, old, new = folders
    with started(tmp_path, "--tls-server-certs-dir", str(mounted)) as server:
        _call(server, old)
        _replace(mounted, new, "ca.crt", "tls.crt", "tls.key")
        _call(server, new)
        with pytest.raises(grpc.RpcError):
            _call(server, old)


@pytest.mark.parametrize("half", [("tls.crt",), ("ca.crt", "tls.key"), ()])
def test_ignores_partly_written_certificates(
    tmp_path: Path, folders: tuple[Path, Path, Path], half: tuple[str, ...]
) -> None:
    mounted, old, new = folders
    with started(tmp_path, "--tls-server-certs-dir", str(mounted)) as server:
        _replace(mounted, new, *half)
        if not half:
            (mounted / "tls.crt").unlink()
        _call(server, old)
        _replace(mounted, new, "ca.crt", "tls.crt", "tls.key")
        _call(server, new)
