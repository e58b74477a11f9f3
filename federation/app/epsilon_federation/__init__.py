"""The app that Flower sends to its processes; the packages that it imports are installed there."""

from flwr.clientapp import ClientApp

from federation.flower.server_app import app as server

client = ClientApp()
"""Placeholder that Flower requires; no client of this federation runs it."""

__all__ = ["client", "server"]
