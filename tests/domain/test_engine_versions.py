"""Abilities of images just before and at the versions where they change (docs/facts.md, Engines)."""

from dataclasses import dataclass

import pytest

from function.domain.engines import Ability, get_version, has_ability, is_stock
from function.domain.model import Engine, EngineName

OFFICIAL = "vllm/vllm-openai"
V = EngineName.VLLM
NODES, RAY, RANKS, DRAIN, GGUF = (
    Ability.NODES, Ability.RAY, Ability.KSERVE_RANKS, Ability.DRAIN, Ability.GGUF,
)  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "image", "said", "want"),
    [
        ("a release", f"{OFFICIAL}:v0.11.1", "", (0, 11, 1)),
        ("a mirror's port is no tag, and what follows a dash is no version", "mirror.example:5000/vllm:0.9.1-cu128", "",
         (0, 9, 1)),
        ("a release to be", f"{OFFICIAL}:v0.18.0rc1", "", (0, 18, 0)),
        ("the first of a row", f"{OFFICIAL}:v0.18", "", (0, 18, 0)),
        ("the tag still tells", f"{OFFICIAL}:v0.8.0@sha256:00ff", "", (0, 8, 0)),
        ("beyond 0.x", f"{OFFICIAL}:v1.2.3", "", (1, 2, 3)),
        ("a digest says nothing", f"{OFFICIAL}@sha256:00ff", "", None),
        ("a name that moves says nothing", f"{OFFICIAL}:latest", "", None),
        ("a year is no version", "example/vllm:25.09-py3", "", None),
        ("another image's tag is its own", "llm-d/llm-d-cuda:v0.8.0", "", None),
        ("only the image's own name counts", "vllm.example/engine:v0.8.0", "", None),
        ("what is said counts", "llm-d/llm-d-cuda:v0.8.0", "0.23.0", (0, 23, 0)),
        ("over the tag, too", f"{OFFICIAL}:v0.8.0", "v0.28", (0, 28, 0)),
    ],
)  # fmt: skip
def test_parses_the_version_of_an_engine(reason: str, image: str, said: str, want: tuple[int, int, int] | None) -> None:
    assert get_version(Engine(name=V, image=image, version=said)) == want, reason


def test_parses_tags_of_sglang() -> None:
    assert get_version(Engine(name=EngineName.SGLANG, image="lmsysorg/sglang:v0.5.4.post1")) == (0, 5, 4)
    assert get_version(Engine(name=EngineName.SGLANG, image=f"{OFFICIAL}:v0.8.0")) is None


@pytest.mark.parametrize(
    ("image", "want"),
    [
        (OFFICIAL, True),
        (f"{OFFICIAL}:v0.18.0", True),
        (f"mirror.example:5000/hub/{OFFICIAL}@sha256:00ff", True),
        ("mirror.example/vllm-openai:v0.18.0", False),
        ("example/notvllm/vllm-openai:v0.18.0", False),
        ("lmsysorg/sglang:v0.5.4", False),
    ],
)
def test_recognizes_stock_images(image: str, want: bool) -> None:  # a row of a table
    assert is_stock(Engine(name=V, image=image)) is want


@dataclass(frozen=True)
class Edge:
    ability: Ability
    last_without: str
    first_with: str
    reason: str


SINCE = [
    Edge(NODES, "0.11.0", "0.11.1", "vLLM can span nodes since pull request 23691"),
    Edge(Ability.RANKS_OVER_NODES, "0.9.0", "0.9.1", "earlier versions fail after the download"),
    Edge(Ability.GGUF_PARTS, "0.19.1", "0.20.0", "earlier versions need the parts to be merged"),
    Edge(Ability.JOIN_TIMEOUT, "0.17.1", "0.18.0", "this version has --distributed-timeout-seconds"),
    Edge(DRAIN, "0.17.1", "0.18.0", "this version has --shutdown-timeout"),
]
UNTIL = [
    Edge(RAY, "0.18.0", "0.17.1", "this version no longer includes Ray in the image"),
    Edge(RANKS, "0.28.0", "0.27.9", "a start rank means hybrid load balancing from this version on"),
    Edge(GGUF, "0.24.0", "0.23.9", "this version needs a plugin that the image does not include"),
]


@pytest.mark.parametrize("edge", [*SINCE, *UNTIL], ids=lambda e: e.ability.name)
def test_abilities_change_at_their_versions(edge: Edge) -> None:
    assert not has_ability(Engine(name=V, image=f"{OFFICIAL}:v{edge.last_without}"), edge.ability), edge.reason
    assert has_ability(Engine(name=V, image=f"{OFFICIAL}:v{edge.first_with}"), edge.ability), edge.reason


@pytest.mark.parametrize("ability", Ability)
def test_unknown_version_counts_as_the_newest(ability: Ability) -> None:
    newest = Engine(name=V, image=f"{OFFICIAL}:v9.0.0")
    assert has_ability(Engine(name=V, image=f"{OFFICIAL}:latest"), ability) is has_ability(newest, ability)


def test_custom_images_count_as_able() -> None:
    own = Engine(name=V, image="example/vllm:v0.30.0")
    assert has_ability(own, RAY)
    assert has_ability(own, GGUF)
    assert not has_ability(own, RANKS), "this ability depends only on the version"


def test_sglang_never_uses_ray() -> None:
    assert not has_ability(Engine(name=EngineName.SGLANG, image="lmsysorg/sglang:v0.5.4"), RAY)
