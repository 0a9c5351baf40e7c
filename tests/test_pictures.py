"""The drawn pictures say in words what they show, and have a dark colour for every colour."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
SVG = "{http://www.w3.org/2000/svg}"
DRAWN = ("overview.svg", "placement.svg")


def _texts(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", [*DRAWN, "plan.svg"])
def test_picture_has_a_title_and_a_description(name: str) -> None:
    root = ET.parse(DOCS / name).getroot()
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert all((child.text or "").strip() for child in root[:2])


@pytest.mark.parametrize("name", DRAWN)
def test_every_coloured_class_has_a_dark_colour(name: str) -> None:
    style = (DOCS / name).read_text().partition("<style>")[2].partition("</style>")[0]
    light, _, dark = style.partition("@media (prefers-color-scheme: dark)")
    coloured = {
        word for rule in re.findall(r"([^{}]+)\{[^}]*#[^}]*\}", light) for word in re.findall(r"[.]([\w-]+)", rule)
    }
    assert coloured
    assert coloured <= set(re.findall(r"[.]([\w-]+)", dark))


def test_overview_shows_services_and_the_gateways_of_both_sides() -> None:
    texts = _texts(ET.parse(DOCS / "overview.svg").getroot())
    assert any("ModelService," in text for text in texts)
    assert texts.count("Gateway of the control plane") == 1
    assert texts.count("Gateway of the cluster") == 2
