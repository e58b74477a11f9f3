"""``python -m engine``: see :mod:`engine.cli`."""

import sys

from engine.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
