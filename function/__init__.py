"""Crossplane composition function that places large language models on GPU clusters."""
