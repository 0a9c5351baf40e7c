"""The blocks `download` and `kserve`, which the platform's defaults and every environment have in common.

Each is read over what a weaker level says, field by field: what is left out, or has a fault, is the weaker one's.
"""

from function.api.block import Block
from function.api.problems import join, wrong
from function.api.templates import refuse_templates
from function.domain.settings import BACKOFF_LIMIT, JOB_NAME, Download, Kserve, Prepare

_LARGEST_ID = 2**31 - 1


def read_download(block: Block, weaker: Download) -> Download:
    """Return the settings of downloads, completed by weaker ones."""
    if not block.fields:
        return weaker
    for side in ("requests", "limits"):
        amounts = block.block("resources").block(side)
        for name in amounts.fields:
            amounts.quantity(name, "")
    check_env(block)
    for item in block.blocks("env"):
        if item.text("name") in (BACKOFF_LIMIT, JOB_NAME):
            item.deny("name", "another: the download sets this one itself")
    _check_groups(block.block("securityContext"))
    refuse_templates(block)
    pull_secrets = tuple(item.text("name") for item in block.blocks("imagePullSecrets"))
    image = block.image("image")
    return Download(
        image=image if block.sound("image") else weaker.image,
        resources=block.block("resources").fields if block.sound("resources") else weaker.resources,
        env=block.maps("env") if block.sound("env") else weaker.env,
        node_selector=dict(block.strings("nodeSelector")) if block.sound("nodeSelector") else weaker.node_selector,
        tolerations=block.maps("tolerations") if block.sound("tolerations") else weaker.tolerations,
        service_account=block.optional_text("serviceAccountName", weaker.service_account),
        pull_secrets=pull_secrets if block.sound("imagePullSecrets") else weaker.pull_secrets,
        token_secret=block.optional_text("tokenSecretName", weaker.token_secret),
        deadline_seconds=block.integer("activeDeadlineSeconds", weaker.deadline_seconds),
        backoff_limit=block.integer("backoffLimit", weaker.backoff_limit),
        security=block.block("securityContext").fields if block.sound("securityContext") else weaker.security,
        prepare=Prepare(block.text("prepare", weaker.prepare)),
    )


def _check_groups(security: Block) -> None:
    groups = security.fields.get("supplementalGroups")
    for index, group in enumerate(groups if isinstance(groups, list) else []):
        if isinstance(group, int) and not 0 <= group <= _LARGEST_ID:
            path = join(security.at("supplementalGroups"), index)
            security.faults.add(wrong(path, group, f"between 0 and {_LARGEST_ID}"))


def check_env(block: Block) -> None:
    """Note each environment variable with two values; they pass through otherwise."""
    for item in block.blocks("env"):
        if item.has("value") and item.has("valueFrom"):
            item.deny("valueFrom", "left out together with value")


def read_kserve(block: Block, weaker: Kserve) -> Kserve:
    """Return the settings of KServe's installation, completed by weaker ones."""
    refuse_templates(block)
    return Kserve(
        namespace=block.text("namespace", weaker.namespace),
        config_prefix=block.text("configPrefix", weaker.config_prefix),
        gateway=block.flag("gateway", weaker.gateway),
        tls=block.flag("tls", weaker.tls),
    )
