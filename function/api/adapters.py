"""Parses the `adapters` of deployments and placements.

Secrets are always in the namespace of the deployment: its author owns the adapters.
"""

from collections.abc import Sequence

from function import schemas
from function.api.cluster_model import check_address, check_folder
from function.api.problems import Problems
from function.api.values import check_unique, choose_block, refuse_expansions, refuse_templates
from function.domain.adapter import Adapter
from function.domain.model import DownloadedSource, HuggingFaceSource, PvcSource, SecretKey, UriSource

_FILES = "adapter_*"  # of a repository: engines read only adapter_config.json and adapter_model.safetensors


def parse_adapters(blocks: Sequence[schemas.Adapter] | None, namespace: str, problems: Problems) -> tuple[Adapter, ...]:
    """Returns the adapters in the order of their names, as far as they can be parsed."""
    adapters: list[Adapter] = []
    for index, block in enumerate(blocks or ()):
        at = problems[index]
        source = None if at.refused else _parse_source(block, namespace, at)
        if block.name.startswith("publishers/"):
            at["name"].add_invalid(block.name, "a name that does not begin with publishers/")
        if source:
            adapters.append(Adapter(name=block.name, source=source, retry=block.retry or ""))
    check_unique((problems[index], block.name) for index, block in enumerate(blocks or ()))
    return tuple(sorted(adapters, key=lambda adapter: adapter.name))


def _parse_source(block: schemas.Adapter, namespace: str, problems: Problems) -> DownloadedSource | PvcSource | None:
    blocks = {"HuggingFace": ("huggingFace", block.hugging_face), "URI": ("uri", block.uri), "PVC": ("pvc", block.pvc)}
    at, chosen = choose_block(block.source, blocks, problems)
    refuse_templates(chosen, at)
    match chosen:
        case schemas.AdapterHuggingFace():
            if chosen.path:
                check_folder(chosen.path, at["path"])
            return HuggingFaceSource(
                repo=chosen.repo,
                revision=chosen.revision,
                secret=_parse_secret(chosen.secret_ref, namespace),
                allow=(f"{chosen.path}/{_FILES}" if chosen.path else _FILES,),
                path=chosen.path or "",
            )
        case schemas.AdapterUri():
            check_address(chosen.uri, at["uri"])
            if chosen.uri.startswith("gs://") and chosen.secret_ref and chosen.secret_ref.key is None:
                at["secretRef.key"].add_required("as the credentials for gs:// are one file")
            return UriSource(uri=chosen.uri, secret=_parse_secret(chosen.secret_ref, namespace))
        case schemas.Pvc():
            path = chosen.path or ""
            if ".." in path.split("/"):
                at["path"].add_invalid(path, "a directory within the claim, without ..")
            refuse_expansions(path, at["path"])
            return PvcSource(claim=chosen.claim_name, path=path.strip("/"))
        case _:
            return None


def _parse_secret(
    reference: schemas.HuggingFaceSecretRef | schemas.AdapterUriSecretRef | None, namespace: str
) -> SecretKey | None:
    return SecretKey(name=reference.name, namespace=namespace, key=reference.key or "") if reference else None
