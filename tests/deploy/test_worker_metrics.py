"""A plain worker tells its metrics, logs who did what under which token, and a shell completes its commands."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from custody.cli.command_tree import completions
from custody.cli.completion import SHELLS
from custody.cli.nouns.worker import _metrics
from custody.errors import BadInput, Unavailable
from custody.kernel.engine import Kind, Serving, Settings, Worker
from custody.kernel.engine.listeners import NOTHING
from custody.kernel.engine.work import Work
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Failed, Outcome, Passed
from custody.kernel.stores import open_store
from custody.web.metrics_server import place


def custody(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "custody", *words], capture_output=True, text=True, timeout=60, **options
    )  # type: ignore[call-overload,no-any-return]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def handle(work: Work) -> Outcome:
    return Failed("torn", "it is torn") if work.payload.get("torn") else Passed()


def test_a_workers_metrics_count_what_it_did_and_what_waits(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        store.queue.submit([NewJob("parcel"), NewJob("parcel", {"torn": True}), NewJob("other")])
        telling, scraped = _metrics("127.0.0.1:0", store, NOTHING, {})
        with scraped:
            Worker(store, Serving((Kind("parcel", handle),)), Settings(threads=1), telling).run_until_quiet()
            text = get(scraped.url)
            for line in (
                'custody_jobs_settled_total{kind="parcel",outcome="success",state="queued"} 1.0',
                'custody_jobs_settled_total{kind="parcel",outcome="failure",state="queued"} 1.0',
                'custody_jobs{kind="other",state="queued"} 1.0',
                'custody_jobs_failed{code="torn",kind="parcel"} 1.0',
                'custody_work_seconds_count{kind="parcel",state="queued"} 2.0',
            ):
                assert line in text, line
            oldest = re.search(r'custody_oldest_claimable_seconds\{kind="other",state="queued"\} ([\d.e-]+)', text)
            assert oldest
            assert float(oldest[1]) > 0
            base = scraped.url.removesuffix("/metrics")
            assert get(f"{base}/health") == "ok\n"
            with pytest.raises(urllib.error.HTTPError):
                get(f"{base}/jobs")
            with pytest.raises(Unavailable):
                _metrics(scraped.url.removeprefix("http://").removesuffix("/metrics"), store, NOTHING, {})


def test_a_move_that_was_refused_is_not_counted_as_made() -> None:
    with open_store("sqlite://:memory:") as store:
        job = store.queue.submit_one(NewJob("parcel")).id
        telling, scraped = _metrics("127.0.0.1:0", store, NOTHING, {})

        def robbed(work: Work) -> Outcome:
            store.queue.release([work.claim])  # as if it had been taken away
            store.queue.hold("kind", "parcel", "eva", "once is enough")
            return Passed()

        with scraped:
            Worker(store, Serving((Kind("parcel", robbed),)), listener=telling).run_until_idle()
            text = get(scraped.url)
        assert store.queue.get(job).ended is None
        assert 'custody_moves_refused_total{kind="parcel"} 1.0' in text
        assert "custody_jobs_settled_total{" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9337", ("127.0.0.1", 9337)),
        ("0.0.0.0:9", ("0.0.0.0", 9)),
        ("[::1]:9", ("::1", 9)),
        (":9", ("127.0.0.1", 9)),
    ],
)
def test_a_port_alone_is_one_of_this_machine(text: str, expected: tuple[str, int]) -> None:
    assert place(text) == expected


@pytest.mark.parametrize("text", ["", "here", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:99999"])
def test_a_place_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        place(text)


def test_a_worker_process_serves_metrics_and_logs_subject_and_token(tmp_path: Path) -> None:
    environment = {**os.environ, "CUSTODY_STORE": f"sqlite:///{tmp_path / 'custody.db'}"}
    assert custody("job", "submit", "parcel", "{}", env=environment).returncode == 0
    argv = [sys.executable, "-m", "custody", "worker", "run", "--exec", "parcel=true", "--metrics", "127.0.0.1:0"]
    process = subprocess.Popen(argv, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        seen, url = [], ""
        until = time.monotonic() + 60
        while not any('"passed"' in line for line in seen):
            assert time.monotonic() < until
            seen.append(process.stderr.readline())
            url = url or (seen[-1].split()[-1] if seen[-1].startswith("metrics") else "")
        assert 'custody_jobs_settled_total{kind="parcel"' in get(url)
        told = json.loads(next(line for line in seen if '"passed"' in line))
        assert told["subject"] == "job/1"
        assert told["token"] > 0
        assert told["kind"] == "parcel"
        assert {"timestamp", "level", "event"} <= set(told)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stderr.close()  # type: ignore[union-attr]
    assert process.returncode == 0


# Commands in a folder with a configuration


def test_commands_mean_the_store_of_the_configuration_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "custody.toml").write_text('store = "sqlite:///elsewhere.db"\n')
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CUSTODY_")}
    assert custody("job", "submit", "parcel", "{}", cwd=tmp_path, env=environment).returncode == 0
    assert (tmp_path / "elsewhere.db").exists()
    assert not (tmp_path / "custody.db").exists()
    told = custody("job", "submit", "parcel", "{}", "--store", "sqlite:///third.db", cwd=tmp_path, env=environment)
    assert told.returncode == 0
    assert (tmp_path / "third.db").exists()


# Completion


def test_every_noun_verb_and_option_can_be_completed() -> None:
    words = completions()
    assert "job" in words[""]
    assert "why" in words["job"]
    assert "--metrics" in words["worker run"]
    assert "--no-workers" in words["serve"]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shell") / "completion"
    made.write_text(SHELLS["bash"](completions()))
    return made


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is missing: apt-get install bash")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["cus", "w"], {"worker"}),
        (["custody", "job", "w"], {"why"}),
        (["custody", "job", "list", "--st"], {"--state", "--store"}),
        (["custody", "serve", "--no-w"], {"--no-workers"}),
        (["custody", "serve", "--demo", "--no-w"], {"--no-workers"}),
        (["custody", "nothing", "x"], set()),
    ],
)
def test_bash_completes_what_has_been_typed(script: Path, typed: list[str], expected: set[str]) -> None:
    line = " ".join(f"'{word}'" for word in typed)
    asked = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(typed) - 1}; _custody; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert set(done.stdout.split()) == expected


def test_other_shells_get_a_script_and_unknown_ones_an_answer() -> None:
    words = completions()
    assert SHELLS["zsh"](words).startswith("#compdef custody")
    assert "complete -c custody -f -n '__fish_use_subcommand' -a 'demo" in SHELLS["fish"](words)
    assert custody("completion", "fish").stdout == SHELLS["fish"](words)
    refused = custody("completion", "csh")
    assert refused.returncode == 2
    assert "bash, zsh, fish" in refused.stderr
