"""Replacement of ``flwr-clientapp``: it runs the code installed on the client, never code from the server.

Flower's clients install and run the app that the server sends. An attacker with the server could then read all data of
a client, and no noise would protect it.
"""

import os
import sys
from pathlib import Path

from flwr.supernode.cli.flwr_clientapp import flwr_clientapp
from flwr.supernode.runtime import run_clientapp

from federation import configuration
from federation.configuration import FILE
from federation.flower.client_app import build_client_app


def main() -> None:
    """Answer one message of the server."""
    agreement = configuration.read(Path(os.environ[FILE]))
    run_clientapp.install_from_fab = lambda *content, **options: None
    run_clientapp.get_load_client_app_fn = lambda **location: lambda *fab: build_client_app(agreement)
    sys.argv[0] = "flwr-clientapp"
    flwr_clientapp()


if __name__ == "__main__":
    main()
