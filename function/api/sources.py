"""Where a model's weights come from: exactly the block that `source` names, and what that block may say.

`owner/name` is all that KServe's initializer takes for a repository, and a revision without a slash or colon,
because both end up in one address. An address of a scheme that has a source of its own is sent there.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from function.api.block import Block
from function.api.problems import nearest
from function.api.templates import refuse_expansions, refuse_templates
from function.domain.model import (
    PART,
    HuggingFaceSource,
    OciSource,
    PvcSource,
    SecretKey,
    Source,
    UriSource,
    parts_of,
    single_file,
)

SCHEMES = ("s3", "gs", "https", "http", "hdfs", "webhdfs")
_OWN_SOURCE = {"hf": "HuggingFace", "oci": "OCI", "pvc": "PVC"}
_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRule:
    """Where a model's Secret may be: a Model's in its own namespace only."""

    namespace: str
    fixed: bool


def read_source(spec: Block, rule: SecretRule) -> Source | None:
    """Return the source; its faults, and those of blocks that do not belong to it, are noted."""
    if spec.problems("source"):
        return None
    wanted = next(name for name in _SOURCES if name.lower() == spec.text("source", "HuggingFace").lower())
    for name, (field, _) in _SOURCES.items():
        if name != wanted and spec.has(field):
            spec.deny(field, f"left out, as source is {wanted}")
        elif name == wanted and not spec.has(field):
            spec.demand(field, f"as source is {wanted}")
    field, read = _SOURCES[wanted]
    refuse_templates(spec.block(field))
    return read(spec.block(field), rule)


def _hugging_face(block: Block, rule: SecretRule) -> Source:
    repo = block.fields.get("repo")
    if isinstance(repo, str) and not _REPO.fullmatch(repo):
        block.deny("repo", "owner/name")
    file, allow, ignore = block.text("file"), block.texts("allowPatterns"), block.texts("ignorePatterns")
    if file:
        _check_file(block, file, allow, ignore)
    return HuggingFaceSource(
        repo=block.text("repo"),
        revision=block.text("revision", "main"),
        secret=_secret(block, rule, "HF_TOKEN"),
        allow=allow or _parts(file),
        ignore=ignore,
        file=file,
    )


def _check_file(block: Block, file: str, allow: tuple[str, ...], ignore: tuple[str, ...]) -> None:
    if any(part in {"", ".", ".."} for part in file.split("/")):
        block.deny("file", "a path within the repository, without ..")
    if parts_of(file)[0] != 1:
        block.deny("file", "the first of its parts, " + PART.sub(r"-00001-of-\2.gguf", file))
    refuse_expansions(block, "file")
    if allow and not any(fnmatchcase(file, pattern) for pattern in allow):
        block.deny("file", "among the files that allowPatterns lets through")
    if any(fnmatchcase(file, pattern) for pattern in ignore):
        block.deny("file", "none of the files that ignorePatterns leaves out")


def _parts(file: str) -> tuple[str, ...]:
    """Return the pattern of a file that is all there is to fetch, with the other parts where it is one of several."""
    return (PART.sub(r"-*-of-\2.gguf", file),) if file else ()


def _oci(block: Block, _: SecretRule) -> Source:
    refuse_expansions(block, "image")
    return OciSource(image=block.image("image"))


def _uri(block: Block, rule: SecretRule) -> Source:
    uri = block.fields.get("uri")
    if isinstance(uri, str):
        _check_uri(block, uri)
        refuse_expansions(block, "uri")
        secret = block.block("secretRef")
        if uri.startswith("gs://") and secret.fields and not secret.has("key"):
            secret.demand("key", "as a gs:// address wants credentials as one file")
    return UriSource(uri=block.text("uri"), secret=_secret(block, rule, ""))


def _check_uri(block: Block, uri: str) -> None:
    scheme, separator, rest = uri.partition("://")
    close = nearest(scheme, SCHEMES)
    if separator and scheme in _OWN_SOURCE:
        block.deny("uri", f"given as source {_OWN_SOURCE[scheme]}")
    elif scheme not in SCHEMES or not rest:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        hint = f" (did you mean {close}://?)" if close and close != scheme else ""
        block.deny("uri", f"an address of {known}{hint}")
    elif (parts := parts_of(single_file(UriSource(uri=uri)))[1]) > 1:
        block.deny("uri", f"one file with its {parts} parts merged, as no other file is fetched")


def _pvc(block: Block, _: SecretRule) -> Source:
    path = block.text("path")
    if ".." in path.split("/"):
        block.deny("path", "a directory within the claim, without ..")
    refuse_expansions(block, "path")
    return PvcSource(claim=block.text("claimName"), path=path)


def _secret(block: Block, rule: SecretRule, key: str) -> SecretKey | None:
    return read_secret(block.block("secretRef"), rule, key) if block.has("secretRef") else None


def read_secret(reference: Block, rule: SecretRule, key: str) -> SecretKey:
    """Return a Secret of the control plane that a model names; `key` where it says none."""
    namespace = reference.text("namespace", rule.namespace)
    if rule.fixed and namespace != rule.namespace:
        reference.deny("namespace", f"left out, as a Model's Secret is in its namespace {rule.namespace}")
    return SecretKey(name=reference.text("name"), namespace=namespace, key=reference.text("key", key))


_SOURCES: Mapping[str, tuple[str, Callable[[Block, SecretRule], Source]]] = {
    "HuggingFace": ("huggingFace", _hugging_face),
    "OCI": ("oci", _oci),
    "URI": ("uri", _uri),
    "PVC": ("pvc", _pvc),
}
