"""Programs of the development tree: generator, demo, bench, and the pinned Go modules of the real stack."""
