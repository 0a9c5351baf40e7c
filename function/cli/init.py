"""`init`: writes a manifest to start from, with comments; that of an environment also from the nodes of a cluster."""

import re
from textwrap import indent

import click
import yaml

from function.cli import options
from function.cli.live import connect
from function.cli.options import CliError, Code, Form, Sources, examples, form, read_starter
from function.cli.suggested_pools import Suggestion, format_pools, suggest_pool_of_machine, suggest_pools
from function.cli.tables import format_data, warn
from function.cli.validation import find_invalid_name
from function.domain.gke_machines import MACHINES
from function.kube.manifests import listing, text
from function.remote.nodes import parse_node

KINDS = ("model", "environment", "deployment", "service", "settings")
_FIRST_NAME = re.compile(r"^metadata:\n  name: (\S+)", re.MULTILINE)
_MODEL = "qwen3-8b"  # of the deployment to start from
_POOLS = "  nodePools:\n"  # the last field of the manifest of an environment


@click.command(epilog=examples("init"))
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", required=False)
@click.option("--model", metavar="NAME", help="The model of a deployment; NAME by default.")
@click.option(
    "--from-cluster", is_flag=True, help="Declare the pools of an environment as the cluster's nodes show them."
)
@click.option("--gke", metavar="MACHINE", help="Declare an environment whose cluster is created on GKE.")
@options.CLUSTER
@form(Form.YAML, Form.JSON)
def init(  # noqa: PLR0913  # click's options
    *, kind: str, name: str | None, model: str | None, from_cluster: bool, gke: str | None, sources: Sources, form: Form
) -> None:
    """Write a manifest to start from, with comments. All fit each other.

    With --from-cluster, --kubeconfig is that of the GPU cluster; its nodes are read, and nothing else. JSON has no
    comments.
    """
    for option, is_set in (("--from-cluster", from_cluster), ("--gke", gke)):
        if is_set and kind != "environment":
            raise CliError(f"{option} writes an environment, not a {kind}")
    content = _read_gke_starter(gke) if gke else read_starter(f"{kind}.yaml")
    if name:
        if problem := find_invalid_name(name):
            raise CliError(f"NAME: {problem.message}")
        before = _FIRST_NAME.findall(content)[0]
        # The Secret with the kubeconfig is named after its environment.
        content = content.replace(before, name) if kind == "environment" else content.replace(before, name, 1)
    if kind == "deployment":
        content = content.replace(_MODEL, model or name or _MODEL)
    elif model:
        raise CliError(f"--model is the model of a deployment, not of a {kind}")
    if from_cluster:
        if gke:
            raise CliError("--from-cluster and --gke: use one of both")
        pools = format_pools(_read_pools(sources))
        content = content.partition(_POOLS)[0] + _POOLS + indent(pools, "  ")
    if form is Form.YAML:
        click.echo(content, nl=False)
    else:
        click.echo(format_data(form, yaml.safe_load(content)))


def _read_gke_starter(name: str) -> str:
    """Returns the environment to start from with a pool of a machine type."""
    machine = MACHINES.get(name)
    if machine is None:
        raise CliError(f"--gke: {name} is not known to have GPUs, use one of {', '.join(MACHINES)}", Code.NOT_FOUND)
    suggestion = suggest_pool_of_machine(name, machine)
    content = read_starter("environment-gke.yaml")
    return content.partition(_POOLS)[0] + _POOLS + indent(format_pools([suggestion]), "  ")


def _read_pools(sources: Sources) -> list[Suggestion]:
    answer = connect(sources).fetch("/api/v1/nodes")
    if answer is None:
        raise CliError("forbidden to list nodes. Use a kubeconfig that can", Code.UNREACHABLE)
    suggestions = suggest_pools(parse_node(node) for node in listing(answer, "items"))
    if not suggestions:
        raise CliError("no node offers GPUs. See 'check cluster'", Code.NOT_FOUND)
    for pool in (suggestion.pool for suggestion in suggestions):
        if not text(pool, "acceleratorType"):
            warn(f"pool {text(pool, 'name')}: no label of its nodes tells the type of GPU: add acceleratorType")
    return suggestions
