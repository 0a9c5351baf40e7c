"""The mistakes of a new user, each fed to every command that reads files: what `validate` finds first, all of them say
first, and none fails with a bug. The numbers are those of the walk in which they were made; 22 to 24 and 37 are no
mistakes in files.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.process import EXAMPLES, run

COMMANDS = ("validate", "plan", "why", "render", "tree", "capacity")
QUOTA = """\
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata:
  name: modeldeployments
spec:
  compositeTypeRef: {apiVersion: modelplane.ai/v1alpha1, kind: ModelDeployment}
  pipeline:
  - step: modelplane
    input: {apiVersion: modelplane.fn.crossplane.io/v1beta1, kind: Defaults, limits: {gpusPerNamespace: 2}}
"""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """An edit of an example, the first line that every command prints of it, and the exit codes."""

    number: str
    what: str
    story: str = "gemma-one-gpu"
    edits: tuple[tuple[str, str], ...] = ()
    more: dict[str, str] = field(default_factory=dict)  # further files
    less: tuple[str, ...] = ()  # files that are left out
    options: tuple[str, ...] = ()  # of every command but validate
    says: str = ""  # in the first fault; empty: there is none
    warns: str = ""  # in a warning
    code: int = 1  # of every command, where there is a fault
    codes: tuple[int, ...] = (0, 0, 0, 0, 0)  # of the commands after validate, where there is none


UNPLACED = (1, 1, 1, 0, 0)

MISTAKES = (
    Mistake(
        number="1",
        what="a misspelt field",
        edits=(("replicaTopology", "replicaTopolgy"),),
        says="replicaTopology: is required",
    ),
    Mistake(
        number="2",
        what="a misspelt block",
        edits=(("  scaling:", "  modelCashe: {type: PVC}\n  scaling:"),),
        says="did you mean",
    ),
    Mistake(
        number="3",
        what="a quantity without its unit",
        edits=(("Gpu: 80Gi\n      inter", "Gpu: 80\n      inter"),),
        warns="was 80Gi meant?",
        codes=UNPLACED,
    ),
    Mistake(
        number="4a",
        what="80GB",
        edits=(("Gpu: 80Gi\n      inter", "Gpu: 80GB\n      inter"),),
        says="did you mean 80Gi?",
    ),
    Mistake(
        number="4b",
        what="80GiB",
        edits=(("Gpu: 80Gi\n      inter", "Gpu: 80GiB\n      inter"),),
        says="did you mean 80Gi?",
    ),
    Mistake(
        number="5",
        what="a pool of 80G for a model of 80Gi",
        edits=(("Gpu: 80Gi\n      inter", "Gpu: 80G\n      inter"),),
        codes=UNPLACED,
    ),
    Mistake(number="6", what="an engine in lower case", edits=(("vLLM", "vllm"),), says="did you mean vLLM?"),
    Mistake(number="7", what="an engine that is not supported", edits=(("vLLM", "TensorRT-LLM"),), says="vLLM, SGLang"),
    Mistake(number="8", what="a precision in capitals", edits=(("[bf16]", "[BF16]"),)),
    Mistake(
        number="9", what="another name of a precision", edits=(("[bf16]", "[float16]"),), says="did you mean fp16?"
    ),
    Mistake(
        number="10",
        what="a misspelt reference",
        edits=(("    name: gemma-3-27b\n  scal", "    name: gemma-27b\n  scal"),),
        says="did you mean gemma-3-27b?",
    ),
    Mistake(
        number="11",
        what="a Model of another namespace",
        edits=(
            ("kind: ClusterModel\nmetadata:\n", "kind: Model\nmetadata:\n  namespace: models\n"),
            ("    name: gemma-3-27b\n  scal", "    kind: Model\n    name: gemma-3-27b\n  scal"),
            ("      namespace: modelplane-system\n", ""),
        ),
        says="the one in namespace models",
    ),
    Mistake(
        number="12",
        what="a managed flag of another value",
        edits=(("- --max-model-len=32768", "- --tensor-parallel-size=2"),),
        says="tensor-parallel-size",
    ),
    Mistake(number="13a", what="--model", edits=(("- --max-model-len=32768", "- --model=other/one"),), says="--model"),
    Mistake(number="13b", what="--port", edits=(("- --max-model-len=32768", "- --port=80"),), says="--port"),
    Mistake(
        number="13c",
        what="--served-model-name",
        edits=(("- --max-model-len=32768", "- --served-model-name=x"),),
        says="--served-model-name",
    ),
    Mistake(
        number="14",
        what="no storage for several nodes",
        story="kimi-k2-two-nodes",
        edits=(("  storage:\n    storageClassName: shared-fast\n", ""),),
        codes=UNPLACED,
    ),
    Mistake(
        number="15", what="more GPUs than a node has", edits=(("gpusPerNode: 1", "gpusPerNode: 8"),), codes=UNPLACED
    ),
    Mistake(
        number="16",
        what="--- is forgotten",
        edits=(("  name: chat\n---\n", "  name: chat\n"),),
        says="Put --- between objects",
        code=2,
    ),
    Mistake(
        number="17",
        what="a tab",
        edits=(("  scaling:", "\tscaling:"),),
        says="it is indented with a tab. Indent with spaces",
        code=2,
    ),
    Mistake(
        number="17a",
        what="a template of Helm",
        edits=(("  scaling:", "  {{ .Values.scaling }}\n  scaling:"),),
        says="{{ is part of a template. Render it first, for example with helm template",
        code=2,
    ),
    Mistake(
        number="17d",
        what="a tab in a file with braces in quotes",
        edits=(("  scaling:", "  note: '{{'\n  environments: 1\n  x: 1\n\tscaling:"),),
        says="it is indented with a tab. Indent with spaces",
        code=2,
    ),
    Mistake(
        number="17b",
        what="the wrong kind of model",
        edits=(("  modelRef:\n", "  modelRef:\n    kind: Model\n"),),
        says="kind: there is no Model chat/gemma-3-27b, and ClusterModel gemma-3-27b exists; leave out kind",
    ),
    Mistake(
        number="17c",
        what="a short name of an accelerator",
        edits=(("        memoryPerGpu: 80Gi\n", "        memoryPerGpu: 80Gi\n        acceleratorType: H100\n"),),
        warns="acceleratorType: no pool has h100; did you mean nvidia-h100-80gb?",
        codes=UNPLACED,
    ),
    Mistake(
        number="18",
        what="another version",
        edits=(("v1alpha1\nkind: ModelDeployment", "v1beta1\nkind: ModelDeployment"),),
        says="did you mean modelplane.ai/v1alpha1?",
    ),
    Mistake(
        number="18e",
        what="another version of an environment",
        edits=(("v1alpha1\nkind: InferenceEnvironment", "v1beta1\nkind: InferenceEnvironment"),),
        says="did you mean modelplane.ai/v1alpha1?",
    ),
    Mistake(
        number="18f",
        what="a misspelt group",
        edits=(("modelplane.ai/v1alpha1\nkind: ModelDeployment", "modelplan.ai/v1alpha1\nkind: ModelDeployment"),),
        says="did you mean modelplane.ai/v1alpha1?",
    ),
    Mistake(
        number="19",
        what="a misspelt kind",
        edits=(("kind: ModelDeployment", "kind: Modeldeployment"),),
        says="did you mean ModelDeployment?",
    ),
    Mistake(number="20", what="no namespace", edits=(("  namespace: chat\n", ""),), warns="is EmptyDir"),
    Mistake(
        number="21",
        what="a file that is not there",
        options=("-f", "nosuch.yaml"),
        says="nosuch.yaml: cannot be read",
        code=2,
    ),
    Mistake(
        number="25",
        what="a pool with three faults",
        story="kimi-k2-two-nodes",
        edits=(
            ("      interNodeBandwidth: ib-400g\n      nvlinkDomainSize: 8\n", ""),
            ("memoryPerGpu: 141Gi\n      interconnect", "memoryPerGpu: 80Gi\n      interconnect"),
        ),
        codes=UNPLACED,
    ),
    Mistake(
        number="26",
        what="another spelling of a network",
        story="kimi-k2-two-nodes",
        edits=(("Bandwidth: ib-400g\n", "Bandwidth: ib400g\n"),),
        says="did you mean ib-400g?",
    ),
    Mistake(
        number="27a",
        what="EmptyDir for two nodes",
        story="kimi-k2-two-nodes",
        edits=(("    name: kimi-k2-instruct\n", "    name: kimi-k2-instruct\n  modelCache: {type: EmptyDir}\n"),),
        says="use PVC for several nodes",
    ),
    Mistake(
        number="27b",
        what="ReadWriteOnce for two nodes",
        story="kimi-k2-two-nodes",
        edits=(
            ("    name: kimi-k2-instruct\n", "    name: kimi-k2-instruct\n  modelCache: {accessMode: ReadWriteOnce}\n"),
        ),
        says="ReadWrite",
    ),
    Mistake(
        number="28a",
        what="no environments",
        edits=(("  scaling:", "  environments: 0\n  scaling:"),),
        says="environments: 0",
    ),
    Mistake(number="28b", what="minus one replica", edits=(("replicas: 3", "replicas: -1"),), says="replicas: -1"),
    Mistake(
        number="29",
        what="autoscaling",
        edits=(("    fixed:\n      replicas: 3", "    minReplicas: 1\n    maxReplicas: 3"),),
        says="did you mean spec.scaling.load.minReplicas?",
    ),
    Mistake(
        number="30",
        what="more replicas than fit",
        edits=(("replicas: 3", "replicas: 40"),),
        warns="is EmptyDir",
        codes=UNPLACED,
    ),
    Mistake(
        number="31",
        what="a claim that is too small",
        edits=(
            ("  serving:", "  resources: {disk: 60Gi}\n  serving:"),
            ("  scaling:", "  modelCache: {type: PVC, size: 20Gi, storageClassName: fast}\n  scaling:"),
        ),
        says="20Gi",
    ),
    Mistake(
        number="32",
        what="a label that no environment has",
        edits=(("  scaling:", "  environmentSelector: {matchLabels: {tier: prod}}\n  scaling:"),),
        codes=UNPLACED,
    ),
    Mistake(
        number="33",
        what="an option and its value in one argument",
        edits=(("--max-model-len=32768", "--max-model-len 32768"),),
        says="--max-model-len",
    ),
    Mistake(
        number="34",
        what="the page of a repository",
        edits=(
            (
                (
                    "  huggingFace:\n    repo: google/gemma-3-27b-it\n"
                    "    secretRef:\n      name: hf-token\n      namespace: modelplane-system\n"
                ),
                "  source: URI\n  uri:\n    uri: https://huggingface.co/google/gemma-3-27b-it\n",
            ),
        ),
        says="google/gemma-3-27b-it",
    ),
    Mistake(
        number="35",
        what="a name instead of a reference",
        edits=(
            ("    secretRef:\n      name: hf-token\n      namespace: modelplane-system\n", "    secretRef: hf-token\n"),
        ),
        says="secretRef",
    ),
    Mistake(number="36", what="an object in two files", more={"copy.yaml": "model.yaml"}, says="given twice"),
    Mistake(
        number="38",
        what="one bad file in a folder",
        edits=(("[bf16]", "[float16]"),),
        more={"a.yaml": "a: [1\nb: 2\n"},
        says="a.yaml:2",
        code=2,
    ),
    Mistake(number="39", what="no environment", less=("environment.yaml",), warns="is EmptyDir", codes=(1, 1, 1, 0, 4)),
    Mistake(
        number="40",
        what="a preset that does not exist",
        edits=(("    acceleratorCount: 4\n", "    acceleratorCount: 4\n    interNode: {preset: coreweave-ib}\n"),),
        says="did you mean coreweave-infiniband?",
    ),
    Mistake(
        number="41",
        what="more GPUs than the namespace may have",
        more={"quota.yaml": QUOTA},
        warns="is EmptyDir",
        codes=UNPLACED,
    ),
)


@pytest.fixture(params=MISTAKES, ids=lambda mistake: f"{mistake.number}-{mistake.what.replace(' ', '-')}")
def mistake(request: pytest.FixtureRequest) -> Mistake:
    found = request.param
    assert isinstance(found, Mistake)
    return found


@pytest.fixture
def folder(mistake: Mistake, tmp_path: Path) -> Path:
    """The example with the mistake."""
    folder = tmp_path / "fleet"
    shutil.copytree(EXAMPLES / mistake.story, folder)
    (folder / "README.md").unlink(missing_ok=True)
    for name in mistake.less:
        (folder / name).unlink()
    for old, new in mistake.edits:
        (file,) = (file for file in folder.iterdir() if old in file.read_text())
        file.write_text(file.read_text().replace(old, new, 1))
    for name, content in mistake.more.items():
        (folder / name).write_text((folder / content).read_text() if content.endswith(".yaml") else content)
    return folder


def test_every_command_says_first_what_validate_says(mistake: Mistake, folder: Path) -> None:
    files = ("-f", str(folder), *mistake.options)
    validated = run("validate", *files)
    found = validated.stdout.partition("\n\n")[0].splitlines() if "\n\n" in validated.stdout else []
    faults = [line for line in found if line.startswith("error: ")]
    assert bool(faults) == bool(mistake.says)
    assert mistake.says in "".join(faults[:1])
    assert not mistake.warns or any(mistake.warns in line for line in found), found
    assert validated.returncode == (mistake.code if faults else 0)
    for command, code in zip(COMMANDS[1:], mistake.codes, strict=True):
        done = run(command, *files)
        assert done.stderr.splitlines()[: len(found)] == found, command
        assert done.returncode == (mistake.code if faults else code), (command, done.stderr)
        assert "internal error" not in done.stderr
        assert not faults or done.stdout == "", f"{command} decides nothing"
