"""Prices of pools in `plan` and `capacity`: what placements cost, what chose, and what moving would save."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, listing, mapping
from tests.cli.conftest import example
from tests.cli.process import cells, output_of, write

CHEAPEST = ("-f", "examples/cheapest")


@pytest.fixture
def manifests() -> dict[str, Manifest]:
    """Two replicas of one H100 for 2.50 USD, or of two L40S for 1.00 USD each, by name."""
    return {str(mapping(m, "metadata")["name"]): copy.deepcopy(m) for m in example("cheapest")}


def test_shows_costs_and_why_the_cheapest_was_chosen() -> None:
    shown = output_of("plan", *CHEAPEST)
    assert [(row[0], row[1], row[-1]) for row in cells(shown)] == [
        ("placed", "l40s-ams", "4.00 USD per hour"),
        ("fits", "h100-fra", "5.00 USD per hour"),
    ]
    assert "\ncost: 4.00 USD per hour\n" in shown
    chosen = "of what fits profile any-gpu, pool l40s is the cheapest (4.00 USD per hour)"
    assert f"l40s-ams: {chosen}, next h100-fra/h100 (5.00 USD per hour)" in shown
    (plan,) = json.loads(output_of("plan", *CHEAPEST, "-o", "json"))
    assert plan["costs"] == [{"amountPerHour": "4.00", "currency": "USD"}]


def test_says_that_currencies_are_not_compared(manifests: dict[str, Manifest], tmp_path: Path) -> None:
    (pool,) = listing(manifests["h100-fra"], "spec.nodePools")
    mapping(pool, "price")["currency"] = "EUR"
    shown = output_of("plan", "-f", write(tmp_path, *manifests.values()))
    assert "Placed on h100-fra" in shown
    assert "costs in EUR and USD are not compared: those in EUR come first" in shown


def test_says_that_no_pool_has_a_price(manifests: dict[str, Manifest], tmp_path: Path) -> None:
    for name in ("h100-fra", "l40s-ams"):
        del listing(manifests[name], "spec.nodePools")[0]["price"]
    given = write(tmp_path, *manifests.values())
    why = "is Cheapest, and no pool has a price, so the smallest that suffices is chosen; set price of the pools"
    assert f"note: placement.prefer {why}" in output_of("plan", "-f", given)
    assert f"ModelDeployment batch/qwen: spec.placement.prefer: {why}" in output_of("validate", given)


def test_says_what_the_cheapest_would_be(manifests: dict[str, Manifest], tmp_path: Path) -> None:
    del mapping(manifests["qwen"], "spec")["placement"]
    shown = output_of("plan", "-f", write(tmp_path, *manifests.values()))
    assert "Placed on h100-fra" in shown
    assert "placement.prefer: Cheapest would take l40s-ams/l40s" in shown


def test_says_what_moving_would_save(manifests: dict[str, Manifest], tmp_path: Path) -> None:
    running: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelPlacement",
        "metadata": {"name": "qwen-1", "namespace": "batch"},
        "spec": {
            "deploymentRef": {"name": "qwen"},
            "modelRef": {"name": "qwen3-32b-priced"},
            "inferenceEnvironmentRef": {"name": "h100-fra"},
            "profile": "any-gpu",
            "pool": "h100",
            "topology": {"nodes": 1, "gpusPerNode": 1},
            "replicas": 2,
        },
    }
    file = write(tmp_path, *manifests.values(), running)
    shown = output_of("plan", "-f", file)
    assert [row[:2] for row in cells(shown)] == [["stays", "h100-fra"], ["fits", "l40s-ams"]]
    saving = "h100-fra: costs 5.00 USD per hour, on l40s-ams/l40s 4.00 USD per hour"
    assert f"note: {saving}: moving it would save 1.00 USD per hour; what runs does not move for money" in shown
    (row,) = cells(output_of("capacity", "-f", file, "--by", "namespace"))
    assert row == ["batch", "2", "2", "1", "5.00 USD per hour", "1.00 USD per hour", "batch/qwen (2)"]


def test_capacity_shows_prices_and_sums(manifests: dict[str, Manifest], tmp_path: Path) -> None:
    assert {row[0]: row[-2] for row in cells(output_of("capacity", *CHEAPEST))} == {
        "h100-fra": "2.50 USD Reserved",
        "l40s-ams": "1.00 USD Spot",
    }
    second = copy.deepcopy(manifests["qwen"])
    mapping(second, "metadata")["namespace"] = "other"
    shown = output_of("capacity", "-f", write(tmp_path, *manifests.values(), second), "--by", "namespace")
    assert shown.endswith("\ntotal cost: 8.00 USD per hour\n")
