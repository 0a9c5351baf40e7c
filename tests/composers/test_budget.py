"""A cost limit per hour of a namespace: growth beyond it is refused, and running services are kept."""

import copy

import pytest

from function.cli.store import Ref
from function.composers import compose
from function.contract import Call
from function.kube.manifests import JSON, Manifest, condition, get, integer, listing, mapping, text
from tests.support.plane import change, fetched, manifests, only, plane, said
from tools.control_plane import ControlPlane
from tools.world import World

STORY = "gemma-one-gpu"  # three replicas of one GPU in namespace chat
TWO_DOLLARS: JSON = {"perGpuHour": "2.00", "currency": "USD"}
ADMITTED, SCHEDULED = "Admitted", "Scheduled"


def priced(amount: str, price: JSON = TWO_DOLLARS, currency: str = "USD") -> ControlPlane:
    """Returns the story on a pool with a price, in a namespace with a cost limit."""
    control = plane(STORY, World(), {"limits": {"costPerHour": {"amount": amount, "currency": currency}}})
    reprice(control, price)
    return control


def reprice(control: ControlPlane, price: JSON) -> None:
    environment = only(control, "InferenceEnvironment")
    pools = [pool | {"price": price} for pool in listing(control.composites[environment], "spec.nodePools")]
    change(control, environment, "spec.nodePools", pools)
    control.settle()


def apply_another(control: ControlPlane) -> Ref:
    """Creates the same deployment again under another name."""
    (given,) = (m for m in manifests(STORY) if m["kind"] == "ModelDeployment")
    mapping(given, "metadata")["name"] = "another"
    control.apply([given])
    control.settle()
    return Ref.of(given)


def message(control: ControlPlane, ref: Ref, type_: str) -> str:
    return text(condition(control.composites[ref], type_), "message")


def test_creates_no_placement_beyond_the_budget() -> None:
    control = priced("11.00")
    another = apply_another(control)
    assert said(control, another, SCHEDULED) == ("False", "BudgetExceeded")
    assert (
        "profile one-gpu: 3 GPUs for 6.00 USD per hour required; namespace chat has 6.00 of 11.00 USD per hour "
        "that the platform allows it, held by gemma-"
    ) in message(control, another, SCHEDULED)
    assert message(control, another, SCHEDULED).endswith(
        "\nLower spec.scaling.fixed.replicas to 2, "
        "which the limits of namespace chat allow on InferenceEnvironment h100-west"
    )
    assert not control.store.owned(another)


def test_advises_the_replicas_that_a_growing_deployment_may_have() -> None:
    """Three replicas cost 6.00 of 11.00 USD per hour. Two more cost 2.00 USD each, so five are possible."""
    control = priced("11.00")
    (given,) = (m for m in manifests(STORY) if m["kind"] == "ModelDeployment")
    mapping(given, "spec.scaling.fixed")["replicas"] = 8
    control.apply([given])
    control.settle()
    assert message(control, Ref.of(given), SCHEDULED).endswith(
        "Lower spec.scaling.fixed.replicas to 5, "
        "which the limits of namespace chat allow on InferenceEnvironment h100-west"
    )


def test_creates_a_placement_that_the_budget_just_allows() -> None:
    control = priced("12.00")
    assert said(control, apply_another(control), SCHEDULED) == ("True", "Placed")


@pytest.mark.parametrize("price", [{"perGpuHour": "2.00", "currency": "EUR"}, {"perGpuHour": "two"}, None], ids=str)
def test_counts_nothing_without_a_price_in_the_currency_of_the_limit(price: JSON) -> None:
    control = priced("1.00", price)
    assert said(control, apply_another(control), SCHEDULED) == ("True", "Placed")


def test_a_limit_of_zero_is_none() -> None:
    control = priced("0")
    assert said(control, apply_another(control), SCHEDULED) == ("True", "Placed")


@pytest.mark.parametrize("price", ["9.99", "two"])
def test_takes_nothing_away_when_a_price_changes(price: str) -> None:
    control = priced("6.00")
    ref = only(control, "ModelPlacement")
    before, owned = copy.deepcopy(control.composites[ref]["spec"]), set(control.store.owned(ref))
    reprice(control, {"perGpuHour": price, "currency": "USD"})
    assert (control.composites[ref]["spec"], set(control.store.owned(ref))) == (before, owned)
    assert said(control, ref, ADMITTED) == ("True", "Admitted")
    assert said(control, only(control, "ModelDeployment"), SCHEDULED) == ("True", "Placed")


def test_takes_nothing_away_when_the_limit_is_lowered() -> None:
    control = priced("6.00")
    ref = only(control, "ModelPlacement")
    lowered: Manifest = {"limits": {"costPerHour": {"amount": "0.01", "currency": "USD"}}}
    for kind in ("ModelPlacement", "ModelDeployment"):
        found = only(control, kind)
        first = Call(xr=control.composites[found], observed=control.store.owned(found), input=lowered)
        assert set(compose(fetched(first, control.composites.values())).composed) == set(control.store.owned(found))
    assert said(control, ref, ADMITTED) == ("True", "Admitted")


def test_adds_as_many_replicas_as_the_budget_allows() -> None:
    control = priced("9.00")
    deployment, ref = only(control, "ModelDeployment"), only(control, "ModelPlacement")
    change(control, deployment, "spec.scaling.fixed.replicas", 5)
    control.settle()
    assert said(control, deployment, SCHEDULED) == ("False", "BudgetExceeded")
    assert "has 4 replicas; profile one-gpu: 1 GPU for 2.00 USD per hour required" in message(
        control, deployment, SCHEDULED
    )
    assert integer(control.composites[ref], "spec.replicas") == 4


def test_placement_beyond_the_budget_keeps_what_it_has() -> None:
    """Two deployments that grow in the same moment do not see each other: the second one to be admitted waits."""
    control = priced("8.00")
    ref = only(control, "ModelPlacement")
    change(control, ref, "spec.replicas", 5)
    limits: Manifest = {"limits": {"costPerHour": {"amount": "8.00", "currency": "USD"}}}
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref), input=limits)
    outcome = compose(fetched(first, control.composites.values()))
    (admitted,) = (c for c in outcome.conditions if str(c.type) == ADMITTED)
    assert str(admitted.reason) == "QuotaExceeded"
    assert admitted.message.startswith("2 GPUs for 4.00 USD per hour required; namespace chat has 6.00 of 8.00 USD")
    (service,) = (c.manifest for key, c in outcome.composed.items() if key.startswith("service-"))
    assert get(service, "spec.forProvider.manifest.spec.replicas") == 3
