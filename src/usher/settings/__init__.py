"""The configuration: a frozen tree with good defaults, and its loader. Errors have their path and come all at once."""
