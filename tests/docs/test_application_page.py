"""The application of the how-to page, on the dashboard: the page shows commands, and a browser shows pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from docs.test_transcripts import FILE, ROOT

PROGRAM = """\
import json
from starlette.testclient import TestClient
from custody import NewJob, open_store
from custody.cli.composition import opened
from custody.config import find
from custody.web.app import Options, build_app

with open_store("sqlite:///custody.db") as store, opened(store, find(None), works=False, shows=True) as applications:
    store.queue.submit_one(NewJob("parcels/wrap", {"to": "Ada"}))
    app = build_app(store, Options(b"a secret of thirty-two bytes, no less", demo=True, opened=applications))
    client = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000))
    html = {"Accept": "text/html"}
    print(json.dumps({
        "page": client.get("/parcels", headers=html).text, "data": client.get("/parcels.json").json(),
        "overview": client.get("/", headers=html).text, "job": client.get("/jobs/1", headers=html).text,
    }))
"""


def test_the_application_has_its_page_its_place_in_the_navigation_and_its_reasons(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "application.md").read_text()
    for name, content in FILE.findall(page):
        file = tmp_path / "packages" / name.removeprefix("parcels/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    about = tmp_path / "packages" / "parcels-1.0.dist-info"
    about.mkdir()
    (about / "entry_points.txt").write_text("[custody.applications]\nparcels = parcels.app:APPLICATION\n")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "custody.toml").write_text("")
    environment = {**os.environ, "PYTHONPATH": "packages"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert '<a href="/jobs/1">Ada</a>: queued' in told["page"]
    assert [each["payload"] for each in told["data"]["parcels"]] == [{"to": "Ada"}]
    assert 'href="/parcels"' in told["overview"]
    assert "There is no tape left" in told["job"]
