"""Results into words: conditions, events, and status. Nothing here decides."""
