"""Requests to a model, at the URL that its deployment names."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass

from function.kube.manifests import Manifest, get, listing, text
from tests.answers.model import MESSAGES

TOKENS = 8  # as inside/tiny_model.py
_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an engine answered."""

    tokens: tuple[int, ...]
    model: str
    fingerprint: str  # the engine's name, version and split


def ask(url: str, *, model: str, tokens: int = TOKENS, whole: bool = False) -> Answer:
    """Asks for a greedy answer of at most so many tokens; of exactly so many if the `whole` number is wanted."""
    asked: Manifest = {"model": model, "messages": MESSAGES, "max_tokens": tokens, "ignore_eos": whole}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        data=json.dumps({**asked, "temperature": 0, "return_token_ids": True}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            said: Manifest = json.load(response)
    except urllib.error.HTTPError as error:
        error.close()
        raise
    (choice,) = listing(said, "choices")
    found = get(choice, "token_ids")
    assert isinstance(found, list), said
    return Answer(
        tokens=tuple(int(str(token)) for token in found),
        model=text(said, "model"),
        fingerprint=text(said, "system_fingerprint"),
    )
