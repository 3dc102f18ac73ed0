"""`python -m usher.devcluster`: have the parts ready, building them if need be, and print where they are.

With `helm`, have that ready as well: tests need it. With `oldest`, have the oldest set ready instead, and print that.
"""

import sys

from usher.devcluster.errors import DevClusterError
from usher.devcluster.parts import OLDEST, find_oldest, find_parts
from usher.devcluster.tools import HELM, find_tool

if __name__ == "__main__":
    try:
        parts = find_oldest() if OLDEST in sys.argv[1:] else find_parts()
        sys.stdout.write(f"{parts.directory}\n")
        if "helm" in sys.argv[1:]:
            sys.stdout.write(f"{find_tool(HELM)}\n")
    except DevClusterError as error:
        sys.exit(f"Error: {error}")
