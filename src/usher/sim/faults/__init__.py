"""Deterministic fault testing: the engine against a fake cluster in which everything goes wrong that can.

A seed decides everything: the quota tree, the queues and units, what their owners do, how long each write takes, which
is refused or lost, when the process dies. A command's write takes effect in the store only when it is carried out;
after a crash a new engine is built from the store alone. After every call the engine's invariants and the cluster's
own must hold; at the end, with faults off, everything that can run must run.

`python -m usher.sim.faults --seeds 1:20000` runs many, `--seed 1234` replays one with its trace.
"""
