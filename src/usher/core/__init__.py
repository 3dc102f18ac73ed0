"""The engine: events in, commands out. Standard library only; no I/O, no clock, no randomness, no logging."""
