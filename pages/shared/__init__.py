"""Modules that several pages use. Everything that needs the engine goes through engine.service."""
