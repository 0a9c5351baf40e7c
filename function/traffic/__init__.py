"""How requests to a ModelService reach placements: shares, the order of changes, and the manifests of gateways."""
