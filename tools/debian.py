"""Programs that Debian builds: from PATH where they are installed, else unpacked into the cache beside the others.

A package is fetched by name through the machine's own apt, which checks its signature, and is never installed. So the
version is Debian's choice, and what needs a certain one says so itself.
"""

import shutil
from pathlib import Path

from tools.programs import CACHE, BuildError, lock, output, say


def path(name: str) -> Path:
    """Return the program that a package is named after.

    Raises:
        BuildError: It is not on PATH and apt does not have it.
    """
    found = shutil.which(name)
    return Path(found) if found else unpacked(name) / "usr" / "bin" / name


def unpacked(package: str, *, with_dependencies: bool = False) -> Path:
    """Return the folder that holds the files of a package, as they would be under the root.

    With dependencies, it also holds the files of the packages that the machine lacks to run this one.

    Raises:
        BuildError: apt does not have it.
    """
    home = CACHE / "debian" / package
    with lock("debian"):
        if not home.exists():
            say(f"{package}: none on PATH, taking Debian's")
            _unpack(package, home, with_dependencies=with_dependencies)
    return home


def find_libraries(home: Path) -> list[Path]:
    """Return the folders with shared libraries of unpacked packages, for LD_LIBRARY_PATH."""
    return sorted({file.parent for file in home.rglob("*.so*") if file.is_file()})


def _unpack(package: str, home: Path, *, with_dependencies: bool) -> None:
    partial = home.with_name(f".{package}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    if shutil.which("apt-get") is None:
        raise BuildError(f"{package} is neither on PATH nor to be had: this machine has no apt-get")
    apt = ["apt-get"]
    try:
        output((*apt, "download", package), partial)
    except BuildError:  # the machine's lists are empty, or name what has gone since; lists of our own need no root
        own = home.with_name(".apt")
        (own / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        apt += ["-o", f"Dir::State::lists={own}/lists", "-o", f"Dir::Cache={own}"]
        output((*apt, "update"), partial)
        output((*apt, "download", package), partial)
    if with_dependencies:
        planned = output((*apt, "--simulate", "--no-install-recommends", "install", package), partial)
        missing = {line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")} - {package}
        if missing:
            output((*apt, "download", *sorted(missing)), partial)
    for file in partial.glob("*.deb"):
        output(("dpkg", "-x", str(file), str(partial)), partial)
        file.unlink()
    partial.rename(home)
