"""House rules that no linter knows: sizes, what no file may hold, what the reference must explain."""

import ast
import enum
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from function import reasons
from function.composers import model_placement
from tools.documents import document

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ROOT / "function" / "schemas"
# Bounds beyond which a file or a function is two; a rule that must be read in order may have 80 lines.
FILE_LINES = 600
FUNCTION_LINES = 80
# Written so that this file does not match itself.
FORBIDDEN = {
    "a registry host": r"docker[.]io|ghcr[.]io|\bgcr[.]io|quay[.]io|registry[.]k8s[.]io|xpkg[.][a-z]+[.]\w+",
    "a package index": r"pypi[.]org|pythonhosted[.]org|proxy[.]golang[.]org",
    # Every node of GKE has its drivers below kubernetes/bin there.
    "a path of one machine": r"/(root|work)/[\w.]|/(home|Users)/(?!kubernetes/bin/)\w+/",
    "a path beside the clone": r"[.][.]/shared",
    "a document that is not ours": r"\b(FACTS|E2E|DESIGN|API|STYLE)[.]md",
    "a test that never runs": r"pytest[.](mark[.])?(skip|skipif|xfail|importorskip)\b",
    "an ignore without a reason": r"# (noqa|type: ignore)(: ?[\w, ]+|\[[\w, -]+\])?$",
}


def _tracked() -> list[Path]:
    listing = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in sorted(set(names)) if (ROOT / name).is_file()]


def _sources() -> list[Path]:
    return [p for p in _tracked() if p.suffix == ".py" and GENERATED not in p.parents]


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield node.name, node.end_lineno - node.lineno + 1


def test_a_file_is_about_one_idea() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in _sources()}
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES} == {}


def test_a_function_fits_one_screen() -> None:
    found = {f"{p.relative_to(ROOT)}:{name}": lines for p in _sources() for name, lines in _functions(p)}
    assert {name: lines for name, lines in found.items() if lines > FUNCTION_LINES} == {}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what], re.MULTILINE)
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in _tracked()
        for match in pattern.finditer(path.read_text(errors="ignore"))
    }
    assert found == set()


def test_no_definition_of_another_project_is_kept_here() -> None:
    # An answer that asks for one names the kind further in.
    kind = re.compile(r"^(- )?kind: CustomResourceDefinition$", re.MULTILINE)
    holders = [p for p in _tracked() if p.suffix == ".yaml" and kind.search(p.read_text())]
    assert holders == [ROOT / "package" / "input" / "defaults.yaml"]


def _reasons() -> list[tuple[str, str]]:
    kinds = [v for v in vars(reasons).values() if isinstance(v, type) and issubclass(v, enum.StrEnum)]
    return sorted(
        (kind.__name__, str(reason)) for kind in kinds if kind not in (enum.StrEnum, reasons.Status) for reason in kind
    )


def test_the_reference_explains_every_reason() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text()
    words = set(re.findall(r"\w+", reference))
    assert [(kind, reason) for kind, reason in _reasons() if reason not in words] == []


_ROW = re.compile(r"^[|] (\w*) ?[|] ([^|]+) [|]", re.MULTILINE)


def _documented() -> list[tuple[str, str]]:
    """Return each condition with each reason that the reference has of it, in its order."""
    section = (
        (ROOT / "docs" / "reference.md").read_text().partition("## Conditions and reasons\n")[2].partition("\n## ")[0]
    )
    rows, condition = [], ""
    for named, said in _ROW.findall(section):
        condition = named or condition
        rows += [(condition, reason) for reason in re.findall(r"[A-Z]\w+", said.partition("as on ")[0])]
    return [(condition, reason) for condition, reason in rows if condition != "condition"]  # a table's head


def test_the_reference_has_no_condition_and_no_reason_that_is_never_said() -> None:
    assert {condition for condition, _ in _documented()} == {str(each) for each in reasons.ConditionType}
    assert {reason for _, reason in _documented()} - {reason for _, reason in _reasons()} == set()


def test_the_reference_has_refusals_from_furthest_to_nearest() -> None:
    documented = [reason for condition, reason in _documented() if condition == "Scheduled"]
    refusals = [str(each) for each in reasons.Refused]
    assert [reason for reason in documented if reason in refusals] == [each for each in refusals if each in documented]


PROMISES = tuple(ROOT / "docs" / name for name in ("security.md", "reliability.md"))


@pytest.mark.parametrize("document", PROMISES, ids=lambda path: path.stem)
def test_what_is_promised_names_a_test_that_is_there(document: Path) -> None:
    there = {name for path in (ROOT / "tests").rglob("test_*.py") for name in DEFINED.findall(path.read_text())}
    named = set(re.findall(r"`(test_\w+)`", document.read_text()))
    assert len(named) > 10
    assert sorted(named - there) == []


DEFINED = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
FACTS = ROOT / "docs" / "facts.md"
POINTER = re.compile(r"[(]docs/facts[.]md, ([^)]+)[)]")


def _headings(document: Path) -> set[str]:
    return set(re.findall(r"^## (.+)$", document.read_text(), re.MULTILINE))


def test_every_pointer_to_a_fact_names_a_section_of_it() -> None:
    pointers = {
        (str(path.relative_to(ROOT)), section)
        for path in _tracked()
        for section in POINTER.findall(path.read_text(errors="ignore"))
    }
    assert pointers, "no comment names the fact behind it"
    assert {(name, section) for name, section in pointers if section not in _headings(FACTS)} == set()


def test_what_checks_a_fact_again_exists() -> None:
    tests = {name for path in _sources() if "tests" in path.parts for name, _ in _functions(path)}
    assert set(re.findall(r"`(test_\w+)`", FACTS.read_text())) - tests == set()


PACKAGES = "|".join(sorted(path.parent.name for path in (ROOT / "function").glob("*/__init__.py")))
PATH = re.compile(rf"`((?:(?:function|install|requirements|tests|tools)/[\w./-]+)|(?:{PACKAGES})/\w+[.]py)`")


def test_a_path_in_a_document_exists() -> None:
    documents = [path for path in _tracked() if path.suffix == ".md" and path.name != "CHANGELOG.md"]
    named = {
        (str(document.relative_to(ROOT)), path) for document in documents for path in PATH.findall(document.read_text())
    }
    assert {(d, p) for d, p in named if not (ROOT / p).exists() and not (ROOT / "function" / p).exists()} == set()


def test_the_page_lists_the_packages_in_the_order_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    page = (ROOT / "docs/architecture.md").read_text()
    (block,) = re.findall(r"^```text\n(program .+?)```", page, re.MULTILINE | re.DOTALL)
    assert " → ".join(layers).split() == block.split()


def test_the_page_lists_the_parts_of_a_placement() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    listed = re.findall(r"^\| `parts/(\w+)\.py` \|", page, re.MULTILINE)
    assert listed == [part.run.__module__.rpartition(".")[2] for part in model_placement.PARTS]


NAMED = re.compile(r"`(\w+)` in `((?:function|tests|tools)/[\w./-]+[.]py)`")


def test_a_name_in_a_file_exists_there() -> None:
    named = {
        (name, path) for page in _tracked() if page.suffix == ".md" for name, path in NAMED.findall(page.read_text())
    }
    assert named
    assert {(n, p) for n, p in named if not re.search(rf"\b{n}\b", (ROOT / p).read_text())} == set()


LINK = re.compile(r"\]\(([^)#:]+)(?:#([\w-]+))?\)")


def _anchors(document: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_between_documents_lead_somewhere() -> None:
    dead = []
    for page in (path for path in _tracked() if path.suffix == ".md"):
        for target, anchor in LINK.findall(page.read_text()):
            path = page.parent / target
            if not path.exists() or (anchor and anchor not in _anchors(path)):
                dead.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert dead == []


def test_the_acceptance_manifests_have_their_outcomes_written_down() -> None:
    folder = ROOT / "tests" / "acceptance"
    rows = set(re.findall(r"^[|] `([\w.-]+[.]yaml)` [|]", (folder / "README.md").read_text(), re.MULTILINE))
    assert rows == {path.name for path in folder.glob("*.yaml")}


DEFINITIONS = sorted((ROOT / "apis").glob("*/definition.yaml"))


def test_there_are_seven_kinds() -> None:
    assert len(DEFINITIONS) == 7


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.parent.name)
def test_kubectl_get_answers_up_where_and_how_big(definition: Path) -> None:
    spec = document(definition)["spec"]
    (version,) = spec["versions"]
    assert 3 <= len(version["additionalPrinterColumns"]) <= 5
    assert spec["names"]["categories"] == ["crossplane", "modelplane"]
    assert spec["names"]["shortNames"]
