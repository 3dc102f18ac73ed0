"""`python -m usher.devcluster`: have the parts ready, building them if need be, and print where they are."""

import sys

from usher.devcluster.errors import DevClusterError
from usher.devcluster.parts import find_parts

if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_parts().directory}\n")
    except DevClusterError as error:
        sys.exit(f"Error: {error}")
