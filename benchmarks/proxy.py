"""A reverse proxy for a benchmark: nginx in front of several servers, configured as docs/deploy.md describes."""

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.browser.driving import answers

_SECONDS = 10.0
_POLL_SECONDS = 0.05
_CONFIGURATION = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream dashboards {{
        hash $uid_got$uid_set consistent;
{servers}
    }}
    server {{
        listen 127.0.0.1:{port};
        listen [::1]:{port};
        client_max_body_size 50m;
        userid on;
        userid_name server;
        userid_path /;
        location / {{
            proxy_pass http://dashboards;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_read_timeout 1d;
        }}
    }}
}}
"""


@contextmanager
def proxy(folder: Path, port: int, servers: Sequence[str]) -> Iterator[str]:
    """Distribute sessions over servers, and yield the address of all; each session stays with its server.

    Args:
        folder: Existing folder for the files of the proxy.
        port: Its port.
        servers: Addresses of the servers, ``host:port``.

    Raises:
        SystemExit: If nginx is not installed, or does not start; with its output.
    """
    if not (program := shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")):
        raise SystemExit("nginx is not installed; it distributes the sessions over several servers")
    configuration, address = folder / "nginx.conf", f"http://localhost:{port}"
    lines = "\n".join(f"        server {server};" for server in servers)
    configuration.write_text(_CONFIGURATION.format(folder=folder, servers=lines, port=port))
    with (folder / "nginx.output").open("w+") as output:
        process = subprocess.Popen([program, "-c", str(configuration)], stdout=output, stderr=output)
        try:
            end = time.monotonic() + _SECONDS
            while not answers(f"{address}/_stcore/health"):
                if process.poll() is not None or time.monotonic() > end:
                    output.seek(0)
                    raise SystemExit(f"nginx does not answer: {output.read()}")
                time.sleep(_POLL_SECONDS)
            yield address
        finally:
            process.terminate()
            process.wait(_SECONDS)
