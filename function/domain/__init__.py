"""What the API's objects mean once they are parsed: immutable, in base units (bytes, GPUs, seconds)."""
