"""The blocks `download` and `kserve`, which the platform's defaults and every environment have in common."""

from function.domain.settings import Download, Kserve
from function.parse.block import Block


def read_download(block: Block) -> Download:
    """Return what is said about downloads; what is not said stays None."""
    for side in ("requests", "limits"):
        amounts = block.block("resources").block(side)
        for name in amounts.fields:
            amounts.quantity(name, "")
    check_env(block)
    pull_secrets = tuple(item.text("name") for item in block.blocks("imagePullSecrets"))
    return Download(
        image=block.optional_text("image"),
        resources=block.block("resources").fields if block.sound("resources") else None,
        env=block.maps("env") if block.sound("env") else None,
        node_selector=dict(block.strings("nodeSelector")) if block.sound("nodeSelector") else None,
        tolerations=block.maps("tolerations") if block.sound("tolerations") else None,
        service_account=block.optional_text("serviceAccountName"),
        pull_secrets=pull_secrets if block.sound("imagePullSecrets") else None,
        token_secret=block.optional_text("tokenSecretName"),
        deadline_seconds=block.integer("activeDeadlineSeconds"),
        backoff_limit=block.integer("backoffLimit"),
    )


def check_env(block: Block) -> None:
    """Note each environment variable with two values; they pass through otherwise."""
    for item in block.blocks("env"):
        if item.has("value") and item.has("valueFrom"):
            item.deny("valueFrom", "left out together with value")


def read_kserve(block: Block) -> Kserve:
    """Return what is said about KServe's installation; what is not said stays None."""
    return Kserve(
        namespace=block.optional_text("namespace"),
        config_prefix=block.optional_text("configPrefix"),
        gateway=block.flag("gateway"),
    )
