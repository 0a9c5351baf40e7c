"""Ratios to an echo of the same payload, measured in one run; they assert nothing about time."""
