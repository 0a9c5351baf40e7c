"""Builds the LLMInferenceService of a placement. Pure: no observation reaches this room."""
