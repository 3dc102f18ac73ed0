"""What tests of Usher, and of plug-ins for it, are made from."""

from usher.testing.waits import eventually

__all__ = ["eventually"]
