"""`python -m vitzoo` is `vitzoo`."""

import sys

from vitzoo.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
