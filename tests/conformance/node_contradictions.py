"""What the XRD of InferenceEnvironment must refuse of its nodes, and what it must not."""

from tests.conformance.contradictions import Case

_GREW = "nodePools.0.autoscaled"
_EXISTS = {"key": "gpu", "operator": "Exists"}
REFUSED = [
    Case(
        "autoscaled-to-nowhere",
        "who adds nodes adds them up to a number",
        "InferenceEnvironment",
        {_GREW: True},
        "spec.nodePools[0].autoscaled",
        "maxNodeCount",
    ),
    Case(
        "every-node",
        "a selector of nothing would list every node",
        "InferenceEnvironment",
        {"hardware": {"selector": {"matchLabels": {}}}},
        "spec.hardware.selector",
        "matchLabels",
    ),
    Case(
        "node-values",
        "as every label selector",
        "InferenceEnvironment",
        {"hardware": {"selector": {"matchExpressions": [{"key": "gpu", "operator": "In"}]}}},
        "spec.hardware.selector.matchExpressions[0].values",
    ),
    Case(
        "observe-sometimes",
        "one of three",
        "InferenceEnvironment",
        {"hardware": {"observe": "Sometimes"}},
        "spec.hardware.observe",
    ),
]
ALLOWED = [
    Case(
        "nodes-of-a-label",
        "a selector of one label, and a pool that grows",
        "InferenceEnvironment",
        {
            "hardware": {"observe": "Always", "selector": {"matchExpressions": [{**_EXISTS}]}},
            _GREW: True,
            "nodePools.0.maxNodeCount": 2,
        },
    )
]
