"""Where a deployment runs: a pure decision with a reason for each no."""
