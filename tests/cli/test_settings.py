"""The platform's settings on the command line: a Composition to start from, and what each field means."""

from pathlib import Path

import yaml

from function.kube.manifests import listing, mapping
from tests.cli.process import output_of, run
from tools.manifest_schema import SETTINGS


def test_writes_a_composition_that_is_valid_with_and_without_its_comments(tmp_path: Path) -> None:
    content = output_of("init", "settings")
    lines = content.splitlines()
    optional = [
        line.replace("# ", "", 1) if line.startswith("      ") and line.lstrip()[0] == "#" else line for line in lines
    ]
    for name, text in (("as-written", content), ("with-all", "\n".join(optional) + "\n")):
        file = tmp_path / f"{name}.yaml"
        file.write_text(text)
        done = run("validate", str(file))
        assert (done.returncode, done.stdout, done.stderr) == (0, "1 object valid\n", ""), name
    (step,) = listing(yaml.safe_load("\n".join(optional)), "spec.pipeline")
    assert mapping(step, "input").keys() == {"apiVersion", "kind", "limits", "autoscaling", "gates"}


def test_settings_take_effect_in_a_plan(tmp_path: Path) -> None:
    """A Composition of another name counts for a deployment that names it."""
    file = tmp_path / "settings.yaml"
    file.write_text(output_of("init", "settings").replace("gpusPerNamespace: 64", "gpusPerNamespace: 2"))
    done = run("plan", "-f", "examples/gemma-one-gpu", "-f", str(file))
    assert "QuotaExceeded" in done.stdout


def test_names_the_composition() -> None:
    assert "\n  name: research\n" in output_of("init", "settings", "research")


def test_explains_settings_as_a_kind() -> None:
    head = f"GROUP:      modelplane.fn.crossplane.io\nKIND:       {SETTINGS}\nVERSION:    v1beta1\n"
    assert output_of("explain", "settings").startswith(head)
    shown = output_of("explain", "settings.limits.gpusPerNamespace")
    assert shown.startswith(head)
    assert "FIELD: gpusPerNamespace <integer>" in shown
    assert output_of("explain", "defaults.limits.gpusPerNamespace") == shown


def test_names_the_setting_that_is_meant() -> None:
    done = run("explain", "settings.limit")
    assert (done.returncode, done.stderr) == (
        4,
        "error: defaults.limit is not a field; did you mean defaults.limits?\n",
    )
