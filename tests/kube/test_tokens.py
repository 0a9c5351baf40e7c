"""Tokens that a user typed into a wrong field: no message repeats them, wherever they were typed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from function.api.problems import format_value
from function.cli.inputs import read_files
from function.cli.validation import Item
from function.composers import compose
from function.contract import Call
from function.kube.manifests import Manifest, get, text
from function.kube.messages import mask_tokens
from tests.support.places import list_places, replace_place

EXAMPLES = Path(__file__).parents[2] / "examples"
# Made up, in the forms of the issuers.
TOKENS = {
    "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345": "hf_***",
    "AKIA" + "IOSFODNN7EXAMPLE": "AKIA***",
    "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a": "ghp_***",
    "nvapi-" + "Ab0-_Cd1Ef2Gh3Ij4": "nvapi-***",
    "ya29." + "a0Ab_Cd1-Ef2Gh3Ij4": "ya29.***",
    "sk-" + "proj-Ab0Cd1Ef2Gh3Ij4": "sk-***",
    "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln": "eyJ***",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY12": "***",
}
NAMES = (
    "hf_not_real",
    "sk-learn-inference-server-long-name",
    "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
    "RedHatAI/Meta-Llama-3-1-405B-Instruct-quantized-w4a16",
    "registry.example.com/team/vllm-openai:v0.15.0-cu129-with-a-very-long-suffix",
    "kimi-k2-4e23e0cb-3fafcaa9-with-a-long-name-of-more-than-forty-characters",
)


@pytest.mark.parametrize("token", TOKENS)
def test_masks_tokens(token: str) -> None:
    for written in (token, f'"{token}"', f"--hf-token={token}", f"https://user:{token}@example.com"):
        assert mask_tokens(f"{written} is not allowed") == f"{written.replace(token, TOKENS[token])} is not allowed"


@pytest.mark.parametrize("name", NAMES)
def test_names_stay(name: str) -> None:
    assert mask_tokens(f'"{name}" is not allowed') == f'"{name}" is not allowed'


@pytest.mark.parametrize("token", TOKENS)
def test_masks_tokens_that_are_cut(token: str) -> None:
    """A long value is truncated, and the rest of a token at the cut would not look like one."""
    for length in range(100):
        found = format_value({"a": "-" * length, "b": token})
        assert token[:10] not in found, found


def _manifests() -> Iterator[Manifest]:
    for story in ("kimi-k2-two-nodes", "model-cache", "uri-s3", "canary"):
        for item in read_files([str(EXAMPLES / story)]):
            if isinstance(item, Item) and text(item.manifest, "apiVersion").startswith("modelplane.ai/"):
                yield item.manifest


def test_no_message_repeats_a_token_wherever_it_was_typed() -> None:
    token = next(iter(TOKENS))
    wrong_places = 0
    for manifest in _manifests():
        for path in list_places(get(manifest, "spec")):
            spec = replace_place(get(manifest, "spec"), path, token)
            outcome = compose(Call(xr={**manifest, "spec": spec}))
            said = [condition.message for condition in outcome.conditions]
            said += [event.message for event in outcome.events]
            wrong_places += any("hf_***" in message for message in said)
            assert not any(token in message for message in said), (text(manifest, "kind"), path)
    assert wrong_places > 50, "messages name the values that they refuse"
