"""What is written back of an observed resource."""

from function.lifecycle.carry_over import carried


def test_a_resource_without_spec_gets_none() -> None:
    found = carried({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}})
    assert found.manifest == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
