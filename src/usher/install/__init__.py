"""What is installed into a cluster, as objects, and how they get there and leave again.

One source: `parts(values)`. `usher install` applies it, `usher install --print` prints it, and the Helm chart in
deploy/helm is the same with holes where the values go.
"""

from usher.install.values import Values, ValuesError, read_values
from usher.install.whole import objects, parts

__all__ = ["Values", "ValuesError", "objects", "parts", "read_values"]
