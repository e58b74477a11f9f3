"""Sign-ins share one TLS context, which accepts the identity provider's certificate only if it is known."""

import asyncio
import os
import ssl
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
from authlib.integrations.starlette_client import StarletteOAuth2App
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from streamlit.auth_util import encode_provider_token
from streamlit.runtime.secrets import secrets_singleton
from streamlit.web.server.starlette.starlette_auth_routes import create_auth_routes

from federation import keys
from pages.startup import identity_provider
from tests.modules import ROOT
from tests.provider import Provider

HERE = "http://localhost:8501"
START = """
import pages.startup.server
from authlib.integrations.starlette_client import StarletteOAuth2App
print(StarletteOAuth2App.client_cls.__module__)
"""


@pytest.fixture
def certificate(tmp_path) -> Path:
    keys.make_server_keys(tmp_path, "localhost")
    return tmp_path / keys.CERTIFICATE


@pytest.fixture
def dashboard(certificate, monkeypatch) -> Starlette:
    """Return Streamlit's sign-in with a provider that has this certificate, and new clients after a server's start."""
    monkeypatch.setattr(StarletteOAuth2App, "client_cls", StarletteOAuth2App.client_cls)
    identity_provider.tls_context.cache_clear()
    identity_provider.share_tls_context()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, certificate.with_name(keys.KEY))
    with Provider(tls=tls) as provider:
        secrets = tomllib.loads(provider.secrets_file(f"{HERE}/oauth2callback"))
        monkeypatch.setattr(secrets_singleton, "_secrets", secrets)
        yield Starlette(routes=create_auth_routes(""), middleware=[Middleware(SessionMiddleware, secret_key="any")])
    identity_provider.tls_context.cache_clear()


async def sign_in(dashboard: Starlette, known: ssl.SSLContext, name: str) -> httpx.Response:
    """Return the dashboard's last answer to a browser that knows the provider's certificate."""
    there = httpx.AsyncClient(verify=known)
    here = httpx.AsyncClient(transport=httpx.ASGITransport(dashboard), base_url=HERE)
    async with here, there:
        answer = await here.get("/auth/login", params={"provider": encode_provider_token("default")})
        if answer.status_code != 302:
            return answer
        chosen = await there.get(httpx.URL(answer.headers["location"]).copy_add_param("who", name))
        return await here.get(chosen.headers["location"])


def test_sign_ins_share_one_context(dashboard, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    create, created = ssl.create_default_context, []
    known = create(cafile=certificate)
    monkeypatch.setattr(ssl, "create_default_context", lambda **given: created.append(given) or create(**given))
    for name in ("Ada", "Rita", "Ada"):
        answer = asyncio.run(sign_in(dashboard, known, name))
        assert "_streamlit_user=" in answer.headers["set-cookie"]
    assert created == [{"cafile": str(certificate)}]


def test_unknown_certificate_is_refused(dashboard, certificate, monkeypatch, caplog):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    known = ssl.create_default_context(cafile=certificate)
    assert asyncio.run(sign_in(dashboard, known, "Ada")).status_code == 400
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text


def test_access_file_can_choose_another_context():
    own, shared = ssl.create_default_context(), identity_provider.tls_context()
    client = identity_provider._Client(verify=own)
    assert client._transport._pool._ssl_context is own
    assert identity_provider._Client()._transport._pool._ssl_context is shared
    assert identity_provider._Client(trust_env=False)._transport._pool._ssl_context is not shared


def test_client_certificate_is_not_added_to_the_shared_context(certificate):
    """Another provider would get it too."""
    client = identity_provider._Client(cert=(str(certificate), str(certificate.with_name(keys.KEY))))
    assert client._transport._pool._ssl_context is not identity_provider.tls_context()


def test_new_server_with_sign_in_shares_it(tmp_path):
    of_server = os.environ | {"EPSILON_HOME": str(tmp_path), "EPSILON_ACCESS_FILE": str(tmp_path / "access.toml")}
    started = subprocess.run(
        [sys.executable, "-c", START], cwd=ROOT, env=of_server, check=True, timeout=600, capture_output=True, text=True
    )
    assert started.stdout == f"{identity_provider.__name__}\n"
