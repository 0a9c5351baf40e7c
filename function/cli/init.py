"""`init` and `completion`: write what one starts from: manifests with comments, and scripts that complete commands.

The manifest of an environment may be written from the nodes of a cluster.
"""

import re
from importlib import resources

import click
import yaml
from click.shell_completion import get_completion_class

from function.cli import options
from function.cli.checks import find_invalid_name
from function.cli.gpus import suggest_pools
from function.cli.live import connect
from function.cli.options import CliError, Code, Sources, examples
from function.cli.tables import warn
from function.kube.manifests import JSON, listing, text
from function.remote.nodes import parse_node

_FIRST_NAME = re.compile(r"^metadata:\n  name: (\S+)", re.MULTILINE)
_MODEL = "qwen3-8b"  # of the deployment to start from
_POOLS = "  nodePools:\n"  # the last field of the manifest of an environment
_STARTERS = resources.files("function.cli").joinpath("starters")


@click.command(epilog=examples("init"))
@click.argument("kind", type=click.Choice(("model", "environment", "deployment")))
@click.argument("name", required=False)
@click.option("--model", metavar="NAME", help="The model of a deployment; NAME by default.")
@click.option(
    "--from-cluster", is_flag=True, help="Declare the pools of an environment as the cluster's nodes show them."
)
@options.CLUSTER
@options.QUIET
def init(*, kind: str, name: str | None, model: str | None, from_cluster: bool, sources: Sources) -> None:
    """Write a manifest to start from, with comments. The three fit each other.

    With --from-cluster, --kubeconfig is that of the GPU cluster; its nodes are read, and nothing else.
    """
    content = _STARTERS.joinpath(f"{kind}.yaml").read_text()
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
        written = yaml.safe_dump(_read_pools(sources), sort_keys=False)
        content = content.partition(_POOLS)[0] + _POOLS + "".join(f"  {line}\n" for line in written.splitlines())
    click.echo(content, nl=False)


def _read_pools(sources: Sources) -> list[JSON]:
    answer = connect(sources).fetch("/api/v1/nodes")
    if answer is None:
        raise CliError("forbidden to list nodes. Use a kubeconfig that can", Code.UNREACHABLE)
    pools = suggest_pools(parse_node(node) for node in listing(answer, "items"))
    if not pools:
        raise CliError("no node offers GPUs. See 'check cluster'", Code.NOT_FOUND)
    for pool in pools:
        if not text(pool, "acceleratorType"):
            warn(f"pool {text(pool, 'name')}: no label of its nodes tells the type of GPU: add acceleratorType")
    return pools


@click.command(epilog=examples("completion"))
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")), required=False)
@click.option(
    "--kubectl", is_flag=True, help="The script kubectl_complete-modelplane, for any shell that completes kubectl."
)
@options.QUIET
def completion(*, shell: str | None, kubectl: bool) -> None:
    """Write the script by which a shell, or kubectl, completes commands and options."""
    if kubectl:
        # kubectl 1.26 and later runs it with the words after `modelplane`, and reads what cobra's programs answer:
        # values line by line, then 4 for no files, 0 for files as well.
        click.echo(_STARTERS.joinpath("kubectl_complete.sh").read_text(), nl=False)
        return
    if shell is None:
        raise CliError("name a shell: bash, zsh or fish; or give --kubectl")
    program = click.get_current_context().find_root().command
    generator = get_completion_class(shell)
    assert generator is not None
    click.echo(generator(program, {}, "modelplane", "_MODELPLANE_COMPLETE").source(), nl=False)
