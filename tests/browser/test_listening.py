"""Listening sockets of a dashboard: only on loopback, and Dask's only for clients with the cluster's certificate.

No browser is needed.
"""

import http.client
import ipaddress
import json
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.engine.cluster.test_machines import answered
from tests.engine.test_file_access import accessible


@pytest.fixture(scope="module")
def cluster(dashboard, home):
    """Return the cluster process of the dashboard."""
    return psutil.Process(json.loads((home / "cluster" / "ready.json").read_text())["pid"])


def listening(first: psutil.Process) -> set[tuple[str, int]]:
    """Return the listening addresses and ports of a process and its descendants, for TCP and UDP."""
    sockets = set()
    for process in [first, *first.children(recursive=True)]:
        for connection in process.net_connections("inet"):
            is_udp_server = connection.type == socket.SOCK_DGRAM and not connection.raddr
            if connection.status == psutil.CONN_LISTEN or is_udp_server:
                sockets.add((connection.laddr.ip, connection.laddr.port))
    return sockets


def test_all_sockets_are_on_loopback(dashboard, cluster):
    sockets = listening(cluster.parent())
    assert {int(dashboard.rstrip("/").rpartition(":")[2])} < {port for _, port in sockets}
    assert listening(cluster) < sockets
    assert not [host for host, _ in sockets if not ipaddress.ip_address(host).is_loopback]


def test_files_of_the_dashboard_belong_to_their_owner(cluster, home):
    assert (home / "cluster" / "log.txt").exists()
    assert not accessible(home)


def http_status(host: str, port: int, path: str) -> int | None:
    """Return the HTTP status of a path, or None where the port does not speak HTTP."""
    connection = http.client.HTTPConnection(host, port, timeout=20)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def test_cluster_has_no_http_pages(cluster):
    """Check that Dask's HTTP ports, which need no certificate, have no pages."""
    paths = ("/", "/status", "/info/main/workers.html", "/json/counts.json", "/metrics", "/api/v1/get_workers")
    sockets = listening(cluster)
    with ThreadPoolExecutor(len(sockets)) as pool:
        statuses = {
            status
            for path in paths
            for status in pool.map(lambda endpoint, path=path: http_status(endpoint[0], endpoint[1], path), sockets)
        }
    assert statuses <= {None, 404}


@pytest.mark.repeats(area="dashboard")
def test_cluster_rejects_clients_without_certificate(cluster):
    """A client with the certificate can execute code."""
    stranger = ssl.create_default_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    sockets = listening(cluster)
    assert len(sockets) > 1  # scheduler, workers and their nannies
    with ThreadPoolExecutor(2 * len(sockets)) as pool:  # each connection waits for its timeout
        results = [pool.submit(answered, *endpoint, context) for endpoint in sockets for context in (None, stranger)]
        assert not any(result.result() for result in results)
