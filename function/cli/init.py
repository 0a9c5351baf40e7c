"""`init`: writes a manifest to start from, with comments; that of an environment also from the nodes of a cluster."""

import re
from textwrap import indent

import click
import yaml

from function.cli import options
from function.cli.live import connect
from function.cli.options import CliError, Code, Form, Sources, examples, form, read_starter
from function.cli.suggested_pools import Suggestion, format_pools, suggest_pools
from function.cli.tables import format_data, warn
from function.cli.validation import find_invalid_name
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
@options.CLUSTER
@form(Form.YAML, Form.JSON)
def init(  # click's options
    *, kind: str, name: str | None, model: str | None, from_cluster: bool, sources: Sources, form: Form
) -> None:
    """Write a manifest to start from, with comments. All fit each other.

    With --from-cluster, --kubeconfig is that of the GPU cluster; its nodes are read, and nothing else. JSON has no
    comments.
    """
    content = read_starter(f"{kind}.yaml")
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
        if kind != "environment":
            raise CliError(f"--from-cluster writes an environment, not a {kind}")
        pools = format_pools(_read_pools(sources))
        content = content.partition(_POOLS)[0] + _POOLS + indent(pools, "  ")
    if form is Form.YAML:
        click.echo(content, nl=False)
    else:
        click.echo(format_data(form, yaml.safe_load(content)))


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
