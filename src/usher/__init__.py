"""Usher: a fair job queue for Kubernetes."""

__version__ = "0.1.0"
