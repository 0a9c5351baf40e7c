"""Pure: one decided placement becomes one LLMInferenceService, as KServe v0.20 and later read it."""
