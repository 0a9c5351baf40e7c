"""What the documents show is true: YAML is valid, commands are commands of the programs that they name, files exist.

What a sentence names need not be whole (`modelplane size`), what a block shows is to be typed. Commands for kubectl and
crossplane are read by the real ones in tests/conformance; the tutorial's and those of removal are run by `make e2e`.
"""

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from function.api.settings import parse_settings
from function.cli.main import COMMANDS
from function.kube.manifests import JSON, Manifest, mapping, text
from tests.cli.process import run
from tests.support.blocks import DOCUMENTS, ROOT, Block, Command, blocks, commands, spans, yaml_blocks

OF_OTHERS = {"Application", "ClusterRole", "PersistentVolumeClaim", "RoleBinding", "StorageClass"}
_WHERE = re.compile(r"# in (?P<spec>the spec of )?an? (?P<kind>\w+)")
_STEP = "# in a Composition's pipeline step"
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()} - {
    "build",
    "dist",
    "function",
}  # no command names a source; kubectl has functions, too
CLI = ROOT / "docs" / "cli.md"
MODELPLANE = [
    *commands("modelplane"),
    *(c for c in commands("kubectl") if c.words[1:2] == ("modelplane",)),
    *(
        Command(CLI, ("modelplane", *shlex.split(span)), whole=False)
        for span in spans(CLI)
        if span.partition(" ")[0] in COMMANDS and " " in span
    ),
]


def _name(item: object) -> str:
    return str(item) if isinstance(item, Command) else ""


def test_every_document_is_looked_at() -> None:
    assert len(DOCUMENTS) > 20
    assert len(list(yaml_blocks())) > 10
    assert len(MODELPLANE) > 20


def test_a_block_says_in_which_language_it_is() -> None:
    unknown = [(b.document.name, b.language, b.said[:40]) for b in blocks() if b.language not in LANGUAGES]
    assert unknown == []


LANGUAGES = {"sh", "make", "text", "yaml"}


def _merged(base: JSON, over: JSON) -> JSON:
    """Lay a fragment over a whole: fields over fields, items of lists over those of the same name."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}
    if isinstance(base, list) and isinstance(over, list):
        named = {item["name"]: item for item in base if isinstance(item, dict) and "name" in item}
        return [
            _merged(named[item["name"]], item) if isinstance(item, dict) and item.get("name") in named else item
            for item in over
        ]
    return over


def _whole(kind: str, name: str = "") -> JSON:
    """Return the first object of a kind, and of a name, that a document shows: what a part of it is laid over."""
    shown: Iterator[Manifest] = (d for block in yaml_blocks() for d in yaml.safe_load_all(block.said))
    return next(d for d in shown if d.get("kind") == kind and name in {"", text(d, "metadata.name")})


def _objects(block: Block) -> list[Manifest]:
    """Return the objects that a block shows, and a part laid over the whole that its first line names."""
    documents: list[Manifest] = list(yaml.safe_load_all(block.said))
    where = _WHERE.match(block.said)
    if where is None:
        assert all("apiVersion" in d for d in documents), "a fragment says where it belongs: # in the spec of a KIND"
        wholes = [_merged(_whole(text(d, "kind"), text(d, "metadata.name")), d) for d in documents]
    else:
        parts: Iterator[Manifest] = ({"spec": d} if where["spec"] else d for d in documents)
        wholes = [_merged(_whole(where["kind"]), part) for part in parts]
    return [whole for whole in wholes if isinstance(whole, dict)]


@pytest.mark.parametrize("block", list(yaml_blocks()), ids=lambda block: block.document.name)
def test_yaml_is_valid(block: Block, tmp_path: Path) -> None:
    if block.said.startswith(_STEP):
        (step,) = yaml.safe_load_all(block.said)
        assert parse_settings(mapping(step, "input"), {}).problems == ()
        return
    objects = _objects(block)
    assert objects
    ours = [item for item in objects if text(item, "apiVersion").startswith("modelplane.ai/")]
    assert {text(item, "kind") for item in objects if item not in ours} <= OF_OTHERS
    if ours:
        (tmp_path / "shown.yaml").write_text(yaml.safe_dump_all(objects))
        done = run("validate", "--strict", str(tmp_path / "shown.yaml"))
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", MODELPLANE, ids=_name)
def test_modelplane_knows_the_command_and_its_options(command: Command) -> None:
    words = command.words[command.words.index("modelplane") + 1 :]
    done = run(*words, "--help")
    assert done.returncode == 0, done.stdout + done.stderr


RUNS = [c for c in MODELPLANE if c.whole and any(word.startswith("examples/") for word in c.words)]


@pytest.mark.parametrize("command", RUNS, ids=_name)
def test_a_command_on_the_examples_works(command: Command) -> None:
    words = command.words[command.words.index("modelplane") + 1 :]
    done = run(*words)
    is_refusal = words[0] == "why" and ": not placed" in done.stdout  # a page may show one, and why exits with 1 then
    assert done.returncode == int(is_refusal), done.stdout + done.stderr


def test_make_has_every_target() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {(str(c), word) for c in commands("make") for word in c.words[1:] if "=" not in word}
    assert named
    assert {(where, word) for where, word in named if word not in targets} == set()


def test_every_module_that_python_is_to_run_is_there() -> None:
    ours = FOLDERS | {"function"}
    named = [c for c in commands("python") if c.words[1] == "-m" and c.words[2].partition(".")[0] in ours]
    assert named
    assert [str(c) for c in named if importlib.util.find_spec(c.words[2]) is None] == []


def test_every_extra_is_one_of_ours() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {extra for c in commands("pip") for word in c.words for extra in re.findall(r"^\.\[(\w+)\]$", word)}
    assert named == set(extras)


def test_files_that_commands_name_exist() -> None:
    words = {
        (b.document.name, w) for b in blocks() if b.language in {"sh", "make"} for w in re.findall(r"[\w./-]+", b.said)
    }
    ours = {(name, word) for name, word in words if "/" in word and word.partition("/")[0] in FOLDERS}
    assert ours
    assert {(name, word) for name, word in ours if not (ROOT / word).exists()} == set()


def test_an_example_with_a_composition_says_that_crossplane_reverts_edits() -> None:
    examples = [path.parent for path in (ROOT / "examples").glob("*/composition.yaml")]
    assert examples
    silent = [e.name for e in examples if "Crossplane reverts your edits" not in (e / "README.md").read_text()]
    assert silent == []


def test_the_first_model_of_the_readme_is_placed(tmp_path: Path) -> None:
    shown = [block.said for block in yaml_blocks() if block.document == ROOT / "README.md"]
    for name, said in zip(("environment.yaml", "gemma.yaml"), shown, strict=True):
        (tmp_path / name).write_text(said)
    (command,) = (c for c in MODELPLANE if c.document == ROOT / "README.md" and "gemma.yaml" in c.words)
    done = run(*(str(tmp_path / word) if word.endswith(".yaml") else word for word in command.words[1:]))
    assert "Placed on us-east (profile one-gpu, pool h100, 1 replica of 1 node x 1 GPU)" in done.stdout
