"""`check-cluster`: what a GPU cluster has of what it needs, by the kubeconfig that an environment will name.

Nothing is written: a review of rights is posted, and answered without being stored.
"""

from collections import Counter
from collections.abc import Sequence

import click

from function.cli.asked import Form, Target
from function.cli.cluster_checks import GATEWAY_API, LWS_API, Line, Seen, State, check
from function.cli.errors import Code
from function.cli.live import Answer, Cluster, connect
from function.cli.options import examples, form
from function.cli.remote_rights import REVIEWS, RIGHTS, Right, review
from function.cli.suggest import GPU_RESOURCES
from function.cli.tables import BAD, GOOD, WAIT, hint, paint, structured, table, wrapped
from function.kube.manifests import Manifest, flag, listing, text
from function.serving.presets import API_VERSION

_PRESETS = f"/apis/{API_VERSION}/namespaces/kserve/llminferenceserviceconfigs"
_GATEWAY = f"/apis/{GATEWAY_API}/namespaces/kserve/gateways/kserve-ingress-gateway"
# Controllers as their projects install them.
_CONTROLLERS = {
    "LeaderWorkerSet": "/apis/apps/v1/namespaces/lws-system/deployments/lws-controller-manager",
    "KServe": "/apis/apps/v1/namespaces/kserve/deployments/llmisvc-controller-manager",
}
_COLOURS = {State.OK: GOOD, State.WARNING: WAIT, State.MISSING: BAD}


@click.command(
    epilog=examples(
        "modelplane check-cluster --kubeconfig dallas.kubeconfig",
        "modelplane check-cluster --context gpu-admin --no-gateway -o json",
    )
)
@click.option("--kubeconfig", metavar="FILE", type=click.Path(), help="Kubeconfig of the GPU cluster.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option("--no-gateway", is_flag=True, help="For environments with kserve.gateway: false.")
@click.option("--gpu-resource", "resources", metavar="NAME", multiple=True, help="What else GPUs are offered as.")
@form(Form.TABLE, Form.JSON, Form.YAML)
@click.pass_context
def check_cluster(  # click's options
    context_: click.Context,
    /,
    *,
    kubeconfig: str | None,
    context: str | None,
    no_gateway: bool,
    resources: tuple[str, ...],
    form: Form,
) -> None:
    """Check that a GPU cluster has what it needs. Exits 1 where something is missing.

    It reads, and asks about the rights of the identity in the kubeconfig; nothing is written. What that identity may
    not look at is a warning: ask once more with an administrator's kubeconfig.
    """
    cluster = connect(Target(kubeconfig=kubeconfig, context=context))
    lines = check(_look(cluster, with_gateway=not no_gateway, resources=(*GPU_RESOURCES, *resources)))
    if form is Form.TABLE:
        _tell(lines)
    else:
        click.echo(structured(form, [_structured(line) for line in lines]))
    if any(line.state is State.MISSING for line in lines):
        context_.exit(Code.REFUSED)


def _look(cluster: Cluster, *, with_gateway: bool, resources: tuple[str, ...]) -> Seen:
    return Seen(
        version=text(cluster.ask("/version").body, "gitVersion"),
        served={api: _resources(cluster.ask(f"/apis/{api}")) for api in (API_VERSION, LWS_API, GATEWAY_API)},
        releases={name: _release(cluster.ask(path)) for name, path in _CONTROLLERS.items()},
        presets=_items(cluster.ask(_PRESETS)),
        with_gateway=with_gateway,
        gateways=_one(cluster.ask(_GATEWAY)) if with_gateway else (),
        classes=_items(cluster.ask("/apis/storage.k8s.io/v1/storageclasses")),
        nodes=_items(cluster.ask("/api/v1/nodes")),
        gpu_resources=resources,
        denied={right.resource: _denied(cluster, right) for right in RIGHTS},
    )


def _resources(answer: Answer) -> frozenset[str]:
    return frozenset(text(resource, "name") for resource in listing(answer.body, "resources"))


def _release(answer: Answer) -> str:
    """Return the tag of a controller's image; empty where it is not told, as by a digest alone."""
    containers = listing(answer.body, "spec.template.spec.containers")
    images = (text(each, "image") for each in containers if text(each, "name") == "manager")
    _, _, tag = next(images, "").partition("@")[0].rpartition("/")[2].partition(":")
    return tag


def _items(answer: Answer) -> list[Manifest] | None:
    return None if answer.forbidden else listing(answer.body, "items")


def _one(answer: Answer) -> list[Manifest] | None:
    return None if answer.forbidden else [answer.body] if answer.body else []


def _denied(cluster: Cluster, right: Right) -> tuple[str, ...]:
    reviews = ((verb, cluster.ask(REVIEWS, review(right, verb))) for verb in right.verbs)
    return tuple(verb for verb, answer in reviews if not flag(answer.body, "status.allowed"))


def _tell(lines: Sequence[Line]) -> None:
    rows = ((line.check, paint(line.state, _COLOURS[line.state]), line.found, line.wanted) for line in lines)
    click.echo(table(("CHECK", "STATE", "FOUND", "WANTED"), rows))
    todo = [line for line in lines if line.todo]
    for number, line in enumerate(todo):
        said = f"{paint(line.state, _COLOURS[line.state])}: {line.check}: {line.todo}"
        click.echo(("" if number else "\n") + wrapped(said, 2))
    states = Counter(line.state for line in lines)
    click.echo(f"\n{', '.join(f'{states[state]} {state}' for state in State)}")
    if not states[State.MISSING]:
        hint("init environment")


def _structured(line: Line) -> Manifest:
    return {
        "check": line.check,
        "state": line.state,
        "found": line.found,
        "wanted": line.wanted,
        "todo": line.todo,
    }
