"""Checks of prerequisites: one line for each, with its state and with what to do if it is missing."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from importlib.metadata import version

import click

from function.cli.live import Cluster
from function.cli.options import Code, Form
from function.cli.tables import BAD, DIM, GOOD, WAIT, format_data, format_table, paint, wrap_lines
from function.kube.manifests import JSON, Manifest, flag, listing, text

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)
FUNCTION, CONFIGURATION, PROVIDER = "function-modelplane", "configuration-modelplane", "provider-kubernetes"
_PACKAGES = "/apis/pkg.crossplane.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1"


class State(StrEnum):
    """How a check ended. Only a missing prerequisite is a reason not to begin."""

    OK = "ok"
    UNCHECKED = "unchecked"  # it exists, and no API tells whether it does what is needed
    WARNING = "warning"
    MISSING = "missing"


_COLOURS = {State.OK: GOOD, State.UNCHECKED: DIM, State.WARNING: WAIT, State.MISSING: BAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One check with its result."""

    check: str
    state: State = State.OK
    found: str = ""
    wanted: str = ""
    todo: str = ""  # empty if there is nothing to do

    def warn(self, found: str, todo: str) -> "Line":
        """Returns the line for a prerequisite that not every environment needs, or whose state is unknown."""
        return replace(self, state=State.WARNING, found=found, todo=todo)

    def missing(self, found: str, todo: str) -> "Line":
        """Returns the line for a prerequisite that the cluster lacks."""
        return replace(self, state=State.MISSING, found=found, todo=todo)

    def forbidden(self) -> "Line":
        """Returns the line for a prerequisite that the identity may not read."""
        return self.warn("forbidden for this identity", "Retry with a kubeconfig that can list it")


def check_served(cluster: Cluster, name: str, api: str, resources: Sequence[str], todo: str) -> Line:
    """Checks that an API with some resources is served."""
    served = {text(resource, "name") for resource in listing(cluster.fetch(f"/apis/{api}"), "resources")}
    lacking = [resource for resource in resources if resource not in served]
    check = Line(check=name, wanted=api)
    return check.missing(f"{api} has no {' and no '.join(lacking)}", todo) if lacking else replace(check, found=api)


def check_controller(cluster: Cluster, served: Line, path: str, minimum: str, todo: str) -> Line:
    """Checks the release of a project that is served, by the tag of its controller's image where that is known."""
    containers = listing(cluster.fetch(path), "spec.template.spec.containers")
    images = (text(c, "image") for c in containers if text(c, "name") in ("manager", "crossplane"))
    tag = parse_tag(next(images, ""))
    if served.state is State.OK and _VERSION.match(tag):
        return check_release(served.check, f"{tag} with {served.found}", minimum, todo)
    return replace(served, wanted=f"{served.wanted}, of {minimum} or later")


def check_release(name: str, found: str, minimum: str, todo: str) -> Line:
    """Checks that a release is not older than the minimum."""
    check = Line(check=name, wanted=f"{minimum} or later")
    if not _VERSION.match(found):
        return check.warn(found, "Find out which release this is")
    release, least = (tuple(map(int, _VERSION.findall(each)[0])) for each in (found, minimum))
    return check.missing(found, todo) if release < least else replace(check, found=found)


def list_denied(cluster: Cluster, right: str, verbs: Iterable[str], account: str = "") -> list[str] | None:
    """Returns the verbs that an account, else the caller, may not use on RESOURCE.GROUP; None where one may not ask."""
    resource, _, group = right.partition(".")
    kind, spec = "SelfSubjectAccessReview", dict[str, JSON]()
    if account:  # with the groups that the API server gives a service account
        namespace, everyone = account.split(":")[2], "system:serviceaccounts"
        groups: list[JSON] = [everyone, f"{everyone}:{namespace}", "system:authenticated"]
        kind, spec = "SubjectAccessReview", {"user": account, "groups": groups}
    denied = []
    for verb in verbs:
        attributes: Manifest = {"group": group, "resource": resource, "verb": verb}
        review: Manifest = {"apiVersion": "authorization.k8s.io/v1", "kind": kind}
        review["spec"] = {**spec, "resourceAttributes": attributes}
        answer = cluster.fetch(f"{_REVIEWS}/{kind.lower()}s", review)
        if answer is None:
            return None
        if not flag(answer, "status.allowed"):
            denied.append(verb)
    return denied


def read_client_release() -> str:
    """Returns the release of this command line, as packages are tagged."""
    return f"v{version(FUNCTION)}"


def find_package(cluster: Cluster, kind: str, name: str) -> Manifest | None:
    """Returns the package of a name, else of a repository so named; empty where none exists, None where forbidden."""
    answer = cluster.fetch(f"{_PACKAGES}/{kind.lower()}s")
    if answer is None:
        return None
    packages = listing(answer, "items")
    named = (package for package in packages if text(package, "metadata.name") == name)
    alike = (
        package for package in packages if _find_base_name(text(package, "spec.package")).partition(":")[0] == name
    )
    return next(named, next(alike, {}))


def find_revision(cluster: Cluster, kind: str, package: Manifest | None) -> Manifest:
    """Returns the revision of a package that is active; empty where none is, or where it is forbidden."""
    name = text(package, "status.currentRevision")
    return (cluster.fetch(f"{_PACKAGES}/{kind.lower()}revisions/{name}") if name else None) or {}


def parse_tag(image: str) -> str:
    """Returns the tag of an image; empty if it has none."""
    return _find_base_name(image).partition(":")[2]


def _find_base_name(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2]


def report(lines: Sequence[Line], form: Form) -> Code:
    """Prints the lines; returns the exit code."""
    code = Code.REFUSED if any(line.state is State.MISSING for line in lines) else Code.OK
    if form is not Form.TABLE:
        click.echo(format_data(form, [asdict(line) for line in lines]))
        return code
    rows = ((paint(line.state, _COLOURS[line.state]), line.check, line.found) for line in lines)
    click.echo(format_table(("STATE", "CHECK", "FOUND"), rows))
    for number, line in enumerate(line for line in lines if line.todo):
        wanted = f"wanted {line.wanted}. " if line.wanted else ""
        todo = f"{paint(line.state, _COLOURS[line.state])}: {line.check}: {wanted}{line.todo}"
        click.echo(("" if number else "\n") + wrap_lines(todo, 2))
    states = Counter(line.state for line in lines)
    click.echo(f"\n{', '.join(f'{states[state]} {state}' for state in State)}")
    return code
