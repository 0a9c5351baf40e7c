"""The kinds of provider-gcp-container as far as they are used: written from its documentation, and closed.

The provider's package cannot be fetched where the tests run, so its own CRDs are not used. On 2026-11-30, every field
below was compared by hand with the CRDs of v3.0.0: all exist there with these types. A field that is missing here fails
as it would with the real CRDs: server-side apply refuses it.
"""

import copy

from function.kube.manifests import JSON, Manifest, mapping

GROUP = "container.gcp.m.upbound.io"
STRING: Manifest = {"type": "string"}
NUMBER: Manifest = {"type": "number"}
BOOLEAN: Manifest = {"type": "boolean"}
STRINGS: Manifest = {"type": "object", "additionalProperties": STRING, "x-kubernetes-map-type": "granular"}
STRING_SET: Manifest = {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}


def block(**properties: JSON) -> Manifest:
    return {"type": "object", "properties": dict[str, JSON](properties)}


def items(**properties: JSON) -> Manifest:
    return {"type": "array", "items": block(**properties)}


CLUSTER_FIELDS: Manifest = {
    "project": STRING,
    "location": STRING,
    "network": STRING,
    "subnetwork": STRING,
    "networkingMode": STRING,
    "datapathProvider": STRING,
    "minMasterVersion": STRING,
    "deletionProtection": BOOLEAN,
    "removeDefaultNodePool": BOOLEAN,
    "initialNodeCount": NUMBER,
    "releaseChannel": block(channel=STRING),
    "ipAllocationPolicy": block(clusterSecondaryRangeName=STRING, servicesSecondaryRangeName=STRING),
    "workloadIdentityConfig": block(workloadPool=STRING),
    "privateClusterConfig": block(enablePrivateNodes=BOOLEAN),
    "addonsConfig": block(gcpFilestoreCsiDriverConfig=block(enabled=BOOLEAN)),
    "maintenancePolicy": block(
        dailyMaintenanceWindow=block(startTime=STRING),
        maintenanceExclusion=items(
            exclusionName=STRING,
            startTime=STRING,
            endTime=STRING,
            exclusionOptions=block(scope=STRING, endTimeBehavior=STRING),  # endTimeBehavior: since v3.0.0
        ),
    ),
}
NODE_POOL_FIELDS: Manifest = {
    "project": STRING,
    "location": STRING,
    "clusterRef": {**block(name=STRING, namespace=STRING), "required": ["name"]},
    "initialNodeCount": NUMBER,
    "nodeCount": NUMBER,
    "nodeLocations": STRING_SET,
    "management": block(autoRepair=BOOLEAN, autoUpgrade=BOOLEAN),
    "upgradeSettings": block(strategy=STRING, maxSurge=NUMBER, maxUnavailable=NUMBER),
    "autoscaling": block(totalMinNodeCount=NUMBER, totalMaxNodeCount=NUMBER, locationPolicy=STRING),
    "placementPolicy": block(type=STRING),
    "nodeConfig": block(
        machineType=STRING,
        imageType=STRING,
        diskSizeGb=NUMBER,
        spot=BOOLEAN,
        oauthScopes=STRING_SET,
        labels=STRINGS,
        metadata=STRINGS,
        gvnic=block(enabled=BOOLEAN),
        workloadMetadataConfig=block(mode=STRING),
        guestAccelerator=items(type=STRING, count=NUMBER, gpuDriverInstallationConfig=block(gpuDriverVersion=STRING)),
        taint=items(key=STRING, value=STRING, effect=STRING),
        reservationAffinity=block(consumeReservationType=STRING, key=STRING, values=STRING_SET),
    ),
}
_POLICIES: list[JSON] = ["Observe", "Create", "Update", "Delete", "LateInitialize", "*"]


def build_definitions() -> list[Manifest]:
    """Return the two CRDs, as an API server would accept them."""
    cluster: Manifest = {**block(**CLUSTER_FIELDS), "required": ["location"]}
    return [
        _build_definition("Cluster", "clusters", cluster),
        _build_definition("NodePool", "nodepools", block(**NODE_POOL_FIELDS)),
    ]


def established(definition: Manifest) -> Manifest:
    """Return a CRD as an API server reports it once it serves the kind."""
    return {**definition, "status": {"conditions": [{"type": "Established", "status": "True"}]}}


def _build_definition(kind: str, plural: str, for_provider: Manifest) -> Manifest:
    fields = mapping(for_provider, "properties")
    initial = {key: value for key, value in fields.items() if key not in {"location", "clusterRef"}}
    reported = {"id": STRING, **{key: value for key, value in fields.items() if key != "clusterRef"}}
    reference: Manifest = {
        **block(kind=STRING, name=STRING),
        "required": ["kind", "name"],
        "default": {"kind": "ClusterProviderConfig", "name": "default"},
    }
    policies: Manifest = {"type": "array", "items": {"type": "string", "enum": _POLICIES}, "default": ["*"]}
    spec = block(
        forProvider=for_provider,
        initProvider=block(**initial),
        providerConfigRef=reference,
        writeConnectionSecretToRef={**block(name=STRING), "required": ["name"]},
        managementPolicies=policies,
    )
    condition = block(
        type=STRING,
        status=STRING,
        reason=STRING,
        message=STRING,
        lastTransitionTime={"type": "string", "format": "date-time"},
        observedGeneration={"type": "integer", "format": "int64"},
    )
    conditions: Manifest = {
        "type": "array",
        "items": {**condition, "required": ["lastTransitionTime", "reason", "status", "type"]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    status = block(atProvider=block(**reported), conditions=conditions)
    schema: Manifest = {**block(spec={**spec, "required": ["forProvider"]}, status=status), "required": ["spec"]}
    version: Manifest = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    definition: Manifest = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "categories": ["crossplane", "managed", "gcp"],
            },
            "versions": [version],
        },
    }
    return copy.deepcopy(definition)
