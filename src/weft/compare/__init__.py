"""Comparing settings: every combination trained alike, scored on the same pairs, and ranked."""
