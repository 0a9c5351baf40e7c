"""The generated models match the XRDs and validate every valid manifest without changes."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from function.kube.manifests import JSON, Manifest
from function.schemas import CacheSpec, Defaults, DeploymentSpec, EnvironmentSpec, ModelSpec, PlacementSpec, ServiceSpec
from tools import generate
from tools.documents import documents

SCHEMAS = generate.ROOT / "function" / "schemas"
FOLDERS = (generate.ROOT / "examples", generate.ROOT / "tests" / "acceptance")
MODELS: dict[str, type[BaseModel]] = {
    "ClusterModel": ModelSpec,
    "Model": ModelSpec,
    "InferenceEnvironment": EnvironmentSpec,
    "ModelDeployment": DeploymentSpec,
    "ModelPlacement": PlacementSpec,
    "ModelCache": CacheSpec,
    "ModelService": ServiceSpec,
}


def _manifests() -> list[tuple[str, Manifest]]:
    files = [path for folder in FOLDERS for path in sorted(folder.rglob("*.yaml"))]
    return [
        (f"{path.parent.name}/{path.stem}-{manifest['kind']}-{manifest['metadata']['name']}", manifest)
        for path in files
        for manifest in documents(path)
        if manifest["kind"] in MODELS
    ]


def _model(**fields: JSON) -> Manifest:
    profile: JSON = {"name": "p", "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.15.0"}}
    return {"model": {"name": "m"}, "serving": [profile], **fields}


def test_generated_models_are_current(tmp_path: Path) -> None:
    generate.write(tmp_path)
    fresh = {path.name: path.read_text() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text() for path in SCHEMAS.glob("*.py")}
    assert fresh == committed, "run make generate"


def test_finds_manifests_to_validate() -> None:
    assert {manifest["kind"] for _, manifest in _manifests()} == MODELS.keys()


@pytest.mark.parametrize("manifest", [pytest.param(m, id=name) for name, m in _manifests()])
def test_validates_every_valid_manifest(manifest: Manifest) -> None:
    MODELS[str(manifest["kind"])].model_validate(manifest["spec"])


def test_validates_the_input_of_every_example() -> None:
    composition = generate.ROOT / "examples" / "air-gap" / "composition.yaml"
    for manifest in documents(composition):
        read = Defaults.model_validate(manifest["spec"]["pipeline"][0]["input"])
        assert read.download
        assert read.download.image_pull_secrets
        assert read.download.image_pull_secrets[0].name == "platform-images"


def test_applies_defaults() -> None:
    model = ModelSpec.model_validate(_model(huggingFace={"repo": "a/b", "secretRef": {"name": "s"}}))
    assert model.source == "HuggingFace"
    assert model.hugging_face
    assert model.hugging_face.revision == "main"
    assert model.hugging_face.secret_ref
    assert model.hugging_face.secret_ref.key == "HF_TOKEN"
    assert (model.resources.cpu, model.resources.memory) == ("4", "16Gi")
    deployment = DeploymentSpec.model_validate({"modelRef": {"name": "m"}})
    assert (deployment.model_ref.kind, deployment.environments) == ("ClusterModel", None)
    assert deployment.scaling.fixed.replicas == 1


def test_ignores_fields_that_crossplane_adds() -> None:
    ModelSpec.model_validate(_model(crossplane={"compositionRef": {"name": "models"}}))


@pytest.mark.parametrize("value", ["2", True, 2.5])
def test_refuses_numbers_that_are_not_whole(value: JSON) -> None:
    with pytest.raises(ValidationError):
        DeploymentSpec.model_validate({"modelRef": {"name": "m"}, "environments": value})


@pytest.mark.parametrize("value", ["80Gi", "nonsense", 85899345920])
def test_quantities_are_text_or_whole_numbers(value: JSON) -> None:
    read = ModelSpec.model_validate(_model(resources={"vram": value}))
    assert read.resources.vram == value


def test_models_are_frozen() -> None:
    read = DeploymentSpec.model_validate({"modelRef": {"name": "m"}})
    with pytest.raises(ValidationError, match="frozen"):
        read.__setattr__("environments", 2)
