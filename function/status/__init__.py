"""Results into words: conditions, events, health and explanations. Nothing here decides."""
