"""The packages of a control plane that `check` and `version` look at, and their releases."""

from importlib import metadata

from function.cli.live import Cluster
from function.kube.manifests import Manifest, listing, text

PROVIDER = "provider-kubernetes"
PACKAGES = {"Provider": PROVIDER, "Function": "function-modelplane", "Configuration": "configuration-modelplane"}
# The repositories of each package; Configurations come with dependencies and without (docs/install.md).
_REPOSITORIES = {kind: (name,) for kind, name in PACKAGES.items()} | {
    "Configuration": (PACKAGES["Configuration"], "modelplane")
}
PACKAGE_API = "/apis/pkg.crossplane.io"


def find_package(cluster: Cluster, kind: str) -> Manifest | None:
    """Returns the package of its name, else of its repository; empty where none exists, None where forbidden."""
    answer = cluster.fetch(f"{PACKAGE_API}/v1/{kind.lower()}s")
    if answer is None:
        return None
    name = PACKAGES[kind]
    packages = listing(answer, "items")
    named = (package for package in packages if text(package, "metadata.name") == name)
    alike = (package for package in packages if split_image(text(package, "spec.package"))[0] in _REPOSITORIES[kind])
    return next(named, next(alike, {}))


def find_revision(cluster: Cluster, function: Manifest | None) -> Manifest:
    """Returns the revision of the Function that is active; empty where none is, or where it is forbidden."""
    name = text(function, "status.currentRevision")
    return (cluster.fetch(f"{PACKAGE_API}/v1/functionrevisions/{name}") if name else None) or {}


def split_image(image: str) -> tuple[str, str]:
    """Returns the last part of an image's repository, and its tag; empty if it has none."""
    repository, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    return repository, tag


def read_client_release() -> str:
    """Returns the release of this command line, as packages are tagged."""
    return f"v{metadata.version(PACKAGES['Function'])}"
