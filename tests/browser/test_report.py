"""Privacy report: from a run on Explore to the downloaded files."""

import io
import json
from pathlib import Path

import pytest
from playwright.sync_api import expect
from pypdf import PdfReader

from engine.reports.document.model import checksum

pytestmark = pytest.mark.browser


@pytest.mark.repeats(area="pages")
def test_report_of_an_explored_run_can_be_downloaded(page, dashboard):
    page.goto(dashboard + "explore")
    page.get_by_role("link", name="Report").last.click()
    document = page.locator(".report")
    expect(document).to_contain_text("Privacy label")
    assert page.title().startswith("Privacy report")
    run = page.evaluate("() => new URL(location.href).searchParams.get('run')")
    expect(document).to_contain_text(f"Run {run}")
    assert page.evaluate("() => document.querySelector('.stMain').scrollWidth <= innerWidth")
    with page.expect_download() as download:
        page.get_by_role("button", name="PDF").click()
    assert download.value.suggested_filename == f"privacy-report-{run}.pdf"
    reader = PdfReader(io.BytesIO(Path(download.value.path()).read_bytes()))
    assert run in reader.pages[0].extract_text()
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    fields = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert fields.pop("sha256") == checksum(fields)
    expect(document).to_contain_text(checksum(fields))
