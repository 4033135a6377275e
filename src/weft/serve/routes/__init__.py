"""The routes of each protocol."""
