"""`check`: checks that a GPU cluster, or the control plane, has what it needs.

Nothing is written: reviews of rights are posted, and answered without being stored.
"""

import click

from function.cli.check_cluster import list_cluster_checks
from function.cli.check_control_plane import list_control_plane_checks
from function.cli.gpus import GPU_RESOURCES
from function.cli.live import connect
from function.cli.options import CLUSTER, Code, Form, Sources, examples, form
from function.cli.prerequisites import report

_FORMS = (Form.TABLE, Form.JSON, Form.YAML)


@click.group(epilog=examples("check"))
def check() -> None:
    """Check that a GPU cluster, or the control plane, has what it needs. Exits 1 where something is missing.

    Nothing is written. What the identity in the kubeconfig may not read is a warning.
    """


@check.command(short_help="Check a GPU cluster.", epilog=examples("check cluster"))
@CLUSTER
@click.option("--no-gateway", is_flag=True, help="For environments with kserve.gateway: false.")
@click.option("--gpu-resource", "resources", metavar="NAME", multiple=True, help="What else GPUs are offered as.")
@form(*_FORMS)
def cluster(*, sources: Sources, no_gateway: bool, resources: tuple[str, ...], form: Form) -> Code:
    """Check a GPU cluster, and the rights of the identity in the kubeconfig.

    Run it once more with an administrator's kubeconfig, which may read more.
    """
    gpu_resources = (*GPU_RESOURCES, *resources)
    lines = list_cluster_checks(connect(sources), with_gateway=not no_gateway, gpu_resources=gpu_resources)
    return report([*lines], form)


@check.command("control-plane", short_help="Check the control plane.", epilog=examples("check control-plane"))
@CLUSTER
@click.option(
    "-n", "--namespace", metavar="NAME", default="crossplane-system", show_default=True, help="Where Crossplane runs."
)
@form(*_FORMS)
def control_plane(*, sources: Sources, namespace: str, form: Form) -> Code:
    """Check the control plane: Crossplane, the packages, the XRDs and their Compositions, and rights.

    Run it with an administrator's kubeconfig: the rights of Crossplane and of the provider are asked for.
    """
    lines = list_control_plane_checks(connect(sources), namespace)
    return report([*lines], form)
