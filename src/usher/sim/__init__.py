"""The simulator: ordinary manifests or traces, run through the production engine in virtual time, and reports on it."""
