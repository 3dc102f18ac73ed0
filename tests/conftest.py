pytest_plugins = ["usher.testing.plugin"]
