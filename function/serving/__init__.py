"""Builds the LLMInferenceService of a placement, and decides when it may replace an earlier one."""
