"""Crossplane's packages on a control plane, and the release of this command line to compare them with."""

from importlib.metadata import version

from function.cli.live import Cluster
from function.kube.manifests import Manifest, listing, text

FUNCTION, CONFIGURATION, PROVIDER = "function-modelplane", "configuration-modelplane", "provider-kubernetes"
_API = "/apis/pkg.crossplane.io/v1"


def read_client_release() -> str:
    """Returns the release of this command line, as packages are tagged."""
    return f"v{version(FUNCTION)}"


def find_package(cluster: Cluster, kind: str, name: str) -> Manifest | None:
    """Returns the package of a name, else of a repository so named; empty where none exists, None where forbidden."""
    answer = cluster.fetch(f"{_API}/{kind.lower()}s")
    if answer is None:
        return None
    packages = listing(answer, "items")
    named = (package for package in packages if text(package, "metadata.name") == name)
    alike = (package for package in packages if _parse_repository(text(package, "spec.package")) == name)
    return next(named, next(alike, {}))


def find_revision(cluster: Cluster, kind: str, package: Manifest | None) -> Manifest:
    """Returns the revision of a package that is active; empty where none is, or where it is forbidden."""
    name = text(package, "status.currentRevision")
    return (cluster.fetch(f"{_API}/{kind.lower()}revisions/{name}") if name else None) or {}


def parse_tag(image: str) -> str:
    """Returns the tag of an image; empty if it has none."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _parse_repository(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
