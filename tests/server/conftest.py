"""The server that most tests share, and certificates for those that speak TLS."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server import certificates as made
from tests.server.processes import Running, started


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run the function as it is installed, without certificates."""
    with started(tmp_path_factory.mktemp("server"), "--insecure") as running:
        yield running


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with certificates."""
    folder = tmp_path_factory.mktemp("certificates")
    made.write(folder)
    return folder
