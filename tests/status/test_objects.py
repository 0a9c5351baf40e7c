"""Each state of a remote object has its sentence, and the provider's words are never dropped."""

import pytest

from function.remote.objects import ObservedObject, State
from function.status.objects import SENTENCES, obstacle


def test_every_state_has_a_sentence() -> None:
    assert set(SENTENCES) == set(State)


@pytest.mark.parametrize("state", State)
def test_the_providers_words_are_kept(state: State) -> None:
    assert obstacle(ObservedObject(state, {}, "its words")).endswith("its words")


def test_nothing_is_in_the_way() -> None:
    assert obstacle(ObservedObject(State.PRESENT, {"kind": "Job"})) == ""
