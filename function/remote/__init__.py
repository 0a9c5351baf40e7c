"""provider-kubernetes Objects: writing, state, health, adoption, carry-over, and the nodes of a cluster."""
