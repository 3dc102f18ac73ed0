"""Wiring: the one package that knows every other. `usher manager` is `usher.app.process.run`."""
