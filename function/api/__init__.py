"""Manifests to domain objects, or to the complete list of what is wrong with them; nothing here raises."""
