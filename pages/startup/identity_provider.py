"""Connections of the sign-in to the identity provider, with one TLS context for all of them.

A sign-in opens several clients. Each would read all certificate authorities again, in the server's event loop, so all
sessions would wait for it.
"""

import ssl
from functools import cache
from typing import Any

import httpx
from authlib.integrations.starlette_client import StarletteOAuth2App

_NewClient = StarletteOAuth2App.client_cls
_OF_TLS = {"verify", "cert", "trust_env"}
"""Options in the access file (``client_kwargs``) that need a context of their own."""


def share_tls_context() -> None:
    """Let all clients of the sign-in have the same TLS context, unless the access file has options of its own."""
    StarletteOAuth2App.client_cls = _Client


@cache
def tls_context() -> ssl.SSLContext:
    """Return the context that httpx would create: SSL_CERT_FILE, SSL_CERT_DIR, or the authorities of certifi.

    Raises:
        OSError: The file of authorities cannot be read.
    """
    return httpx.create_ssl_context()


class _Client(_NewClient):  # type: ignore[misc,valid-type]
    def __init__(self, *arguments: Any, **options: Any) -> None:
        shared = {} if _OF_TLS & options.keys() else {"verify": tls_context()}
        super().__init__(*arguments, **shared, **options)
