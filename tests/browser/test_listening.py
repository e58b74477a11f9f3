"""Where the processes of a dashboard listen: at addresses that no other machine reaches, and at those of Dask to nobody
without the certificates that were made at its start. No browser is needed."""

import http.client
import ipaddress
import json
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.engine.cluster.test_machines import answered


@pytest.fixture(scope="module")
def cluster(dashboard, home):
    """The cluster's process of a started dashboard."""
    return psutil.Process(json.loads((home / "cluster" / "ready.json").read_text())["pid"])


def listening(first: psutil.Process) -> set[tuple[str, int]]:
    """Addresses and ports at which it, or what it started, waits for connections or datagrams."""
    found = set()
    for process in [first, *first.children(recursive=True)]:
        for each in process.net_connections("inet"):
            if each.status == psutil.CONN_LISTEN or (each.type == socket.SOCK_DGRAM and not each.raddr):
                found.add((each.laddr.ip, each.laddr.port))
    return found


def test_no_other_machine_reaches_any_of_them(dashboard, cluster):
    found = listening(cluster.parent())
    assert {int(dashboard.rstrip("/").rpartition(":")[2])} < {port for _, port in found}
    assert listening(cluster) < found
    assert not [each for each in found if not ipaddress.ip_address(each[0]).is_loopback]


def page(host: str, port: int, path: str) -> int | None:
    """The status of what is there for a browser; None where nobody speaks HTTP."""
    asked = http.client.HTTPConnection(host, port, timeout=20)
    try:
        asked.request("GET", path)
        return asked.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        asked.close()


def test_the_clusters_have_no_pages(cluster):
    """Dask listens for those as well, which need no certificate: there are none."""
    paths = ("/", "/status", "/info/main/workers.html", "/json/counts.json", "/metrics", "/api/v1/get_workers")
    places = listening(cluster)
    with ThreadPoolExecutor(len(places)) as asking:
        found = {
            status
            for path in paths
            for status in asking.map(lambda each, path=path: page(each[0], each[1], path), places)
        }
    assert found <= {None, 404}


def test_the_clusters_have_no_answer_for_who_has_no_certificate(cluster):
    """They have code run for whoever has one."""
    stranger = ssl.create_default_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    found = listening(cluster)
    assert len(found) > 1  # scheduler, and workers with who looks after them
    with ThreadPoolExecutor(2 * len(found)) as asking:  # each waits in vain until its time is over
        asked = [asking.submit(answered, *each, known) for each in found for known in (None, stranger)]
        assert not any(each.result() for each in asked)
