"""provider-kubernetes Objects: their state and health, how they are written and adopted, and the nodes of a cluster."""
