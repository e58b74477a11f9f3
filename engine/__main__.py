"""``python -m engine``: see :mod:`engine.command_line`."""

import sys

from engine.command_line.verbs import main

if __name__ == "__main__":
    sys.exit(main())
