"""The doors: what is decided before the API server stores an object.

`terms` says what the doors depend on. `policies` makes admission policies from them, which the API server evaluates by
itself, also while Usher is down; `rules` decides the same in Python, and what needs a second object, for the reviews
that `server` answers; `configurations` makes the API server ask. `words` is what all of them say.
"""
