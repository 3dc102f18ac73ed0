"""Logs of real machines as scenarios."""
