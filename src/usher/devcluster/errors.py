"""The one error of this package: what went wrong, and what to do about it.

Everything in `usher.devcluster` that a person can put right (no Go, a port taken, a component that died, an unknown
cluster) is raised as `DevClusterError`; the command line prints its text as it is and exits with 1.
"""


class DevClusterError(Exception):
    """Something about the local control plane failed in a way that the message explains."""
