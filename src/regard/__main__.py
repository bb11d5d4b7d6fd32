"""`python -m regard` is the `regard` program."""

import sys

from regard.cli import main

if __name__ == "__main__":
    sys.exit(main())
