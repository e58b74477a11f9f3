"""In the place of ``flwr-clientapp``: runs what is installed here, never what the server sent.

Flower's clients install the app that the server carries to them, and run it: whoever has the server could read all
that a client has, and no noise would help.
"""

import os
import sys
from pathlib import Path

from flwr.supernode.cli.flwr_clientapp import flwr_clientapp
from flwr.supernode.runtime import run_clientapp

from federation import configuration
from federation.configuration import FILE
from federation.flower.client_app import app_of


def main() -> None:
    """Answer one message."""
    agreement = configuration.read(Path(os.environ[FILE]))
    run_clientapp.install_from_fab = lambda *content, **options: None
    run_clientapp.get_load_client_app_fn = lambda **place: lambda *fab: app_of(agreement)
    sys.argv[0] = "flwr-clientapp"
    flwr_clientapp()


if __name__ == "__main__":
    main()
