"""The recipes become the commands that their sources publish (examples/recipes/README.md names them)."""

from dataclasses import dataclass

import pytest

from function.kube.manifests import Manifest, get, listing, mapping, text
from tests.support.plane import plane

LWS = ["--nnodes=$(LWS_GROUP_SIZE)", "--node-rank=$(LWS_WORKER_INDEX)"]


@dataclass(frozen=True)
class Recipe:
    story: str
    model: str
    published: tuple[str, ...]
    pods: int


RECIPES = [
    Recipe("recipes", "deepseek-ai/DeepSeek-V3", ("--tp-size=16", *LWS, "--trust-remote-code"), 2),
    Recipe("recipes", "meta-llama/Llama-3.1-405B-Instruct",
           ("--tensor-parallel-size=8", "--pipeline-parallel-size=2", *LWS), 2),
    Recipe("recipes", "openai/gpt-oss-120b", ("--tool-call-parser=openai", "--enable-auto-tool-choice"), 1),
    Recipe("llama-405b-sglang", "meta-llama/Llama-3.1-405B-Instruct", ("--tp-size=16", *LWS), 2),
]  # fmt: skip


def service(story: str, model: str) -> Manifest:
    """Return the LLMInferenceService of a model of an example."""
    (found,) = [
        manifest
        for observed in plane(story).rounds[-1].observed.values()
        for key, item in observed.items()
        if key.startswith("service-")
        for manifest in [mapping(item, "spec.forProvider.manifest")]
        if text(manifest, "spec.model.name") == model
    ]
    return found


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: f"{r.story}-{r.model}")
def test_recipe_becomes_command_of_service(recipe: Recipe) -> None:
    made = service(recipe.story, recipe.model)
    (main,) = listing(made, "spec.template.containers")
    args = main["args"]
    assert isinstance(args, list)
    assert [arg for arg in args if arg in recipe.published] == list(recipe.published)
    assert get(made, "spec.parallelism.pipeline") == (recipe.pods if recipe.pods > 1 else None)


def test_preset_of_kserve_splits_qwen_by_profile() -> None:
    made = service("recipes", "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8")
    assert get(made, "spec.parallelism") == {"tensor": 4}
