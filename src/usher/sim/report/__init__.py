"""Runs as text, JSON and HTML."""
