"""What creates clusters in a cloud: the managed resources of a provider, and what these report."""
