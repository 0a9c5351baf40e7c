"""Kubernetes notions without a cluster: quantities, label selectors, names, manifests."""
