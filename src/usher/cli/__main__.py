"""`python -m usher.cli` is `usher`."""

from usher.cli.main import main

main()
