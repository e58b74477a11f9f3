"""An OpenID Connect provider on this machine that signs in the selected user.

Source: OpenID Connect Core 1.0, sections 3.1 and 10.1.
"""

import base64
import html
import json
import secrets
import ssl
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "epsilon-explorer", "the-secret-of-the-client"  # pragma: allowlist secret
PEOPLE: dict[str, dict[str, Any]] = {
    "Ada": {"sub": "1", "email": "ada@example.org", "email_verified": True},
    "Rita": {"sub": "2", "email": "Rita@lab.example.org", "email_verified": True},
    "Rudi": {"sub": "3", "email": "rudi@lab.example.org", "email_verified": True},
    "Vera": {"sub": "4", "email": "vera@example.net", "email_verified": True},
    "Mallory, who says she is Ada": {"sub": "5", "email": "ada@example.org", "email_verified": False},
}


class Provider(ThreadingHTTPServer):
    """An HTTP server on a free port of this machine; it listens inside a ``with`` block.

    Args:
        people: Claims about each user whom it can sign in, by name.
        tls: Context with its certificate, or None for HTTP.
    """

    daemon_threads = True

    def __init__(self, people: Mapping[str, dict[str, Any]] = PEOPLE, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.people = people
        self.address = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_port}"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"})
        self.codes: dict[str, dict[str, Any]] = {}
        self.age = 0
        """Seconds since the sign-in, at the time of the token."""

    def __enter__(self) -> "Provider":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def secrets_file(self, redirect_uri: str) -> str:
        """Return the section on the provider of a dashboard's access file."""
        return (
            f'[auth]\nredirect_uri = "{redirect_uri}"\ncookie_secret = "{secrets.token_hex(32)}"\n'
            f'client_id = "{CLIENT}"\nclient_secret = "{SECRET}"\n'
            f'server_metadata_url = "{self.address}/.well-known/openid-configuration"\n'
        )


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        address = self.server.address
        if parts.path == "/.well-known/openid-configuration":
            self._json(
                {
                    "issuer": address,
                    "authorization_endpoint": f"{address}/authorize",
                    "token_endpoint": f"{address}/token",
                    "jwks_uri": f"{address}/jwks",
                    "id_token_signing_alg_values_supported": ["RS256"],
                    "response_types_supported": ["code"],
                    "subject_types_supported": ["public"],
                }
            )
        elif parts.path == "/jwks":
            self._json({"keys": [self.server.key.as_dict(private=False)]})
        elif parts.path == "/authorize" and query.get("client_id") == CLIENT and "who" not in query:
            links = "".join(
                f'<p><a href="/authorize?{html.escape(urlencode({**query, "who": name}))}">{html.escape(name)}</a></p>'
                for name in self.server.people
            )
            self._send(200, f"<h1>Who are you?</h1>{links}".encode(), "text/html; charset=utf-8")
        elif parts.path == "/authorize" and query.get("client_id") == CLIENT:
            code = secrets.token_urlsafe()
            self.server.codes[code] = {"claims": self.server.people[query["who"]], "nonce": query.get("nonce")}
            back = urlencode({"code": code, "state": query["state"]})
            self._send(302, b"", "text/plain", Location=f"{query['redirect_uri']}?{back}")
        else:
            self._send(404, b"", "text/plain")

    def do_POST(self) -> None:
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if self.path != "/token" or self.headers.get("Authorization") != f"Basic {basic}":
            self._send(401, b"", "text/plain")
            return
        grant = self.server.codes.pop(body["code"][0])
        now = int(time.time()) - self.server.age
        claims = {"iss": self.server.address, "aud": CLIENT, "iat": now, "exp": int(time.time()) + 600}
        claims |= {**grant["claims"], **({"nonce": grant["nonce"]} if grant["nonce"] else {})}
        token = jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.server.key)
        self._json({"access_token": "a", "token_type": "Bearer", "expires_in": 600, "id_token": token})

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
