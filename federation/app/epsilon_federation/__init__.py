"""The app that Flower carries: what it names is installed where it runs."""

from flwr.clientapp import ClientApp

from federation.flower.server_app import app as server

client = ClientApp()
"""Flower wants one; no client of ours runs it."""

__all__ = ["client", "server"]
