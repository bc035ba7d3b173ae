"""A program of one's own as a handler: what it says, and what it says too much."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from custody.kernel.engine.executable import MOST_KEPT, MOST_TOLD, executable
from custody.kernel.model.job import Job
from custody.kernel.stores import open_store
from kernel.engine.conftest import Bench, HandClock
from rig.memory import in_own_process


def ran(bench: Bench, program: str, **payload: object) -> Job:
    number = bench.submit(payload=payload)
    bench.worker(executable("parcel", [sys.executable, "-c", program])).run_until_idle()
    return bench.job(number)


def test_it_is_told_its_payload_and_its_last_line_is_kept(bench: Bench) -> None:
    job = ran(bench, "import sys; print('one'); print(sys.stdin.read())", name="Ada")
    assert (job.ended, job.facts) == ("passed", {"name": "Ada"})


@pytest.mark.parametrize("end", ["", "sys.stdin.close(); time.sleep(0.1)"])
def test_it_need_not_listen(bench: Bench, end: str) -> None:
    job = ran(bench, f"import sys, time; {end}", much="x" * 300_000)
    assert job.ended == "passed", bench.types(job.id)


@pytest.mark.parametrize(("code", "state"), [(1, "failed"), (75, "queued")])
def test_its_code_and_its_last_words_say_how_it_failed(bench: Bench, code: int, state: str) -> None:
    job = ran(bench, f"import sys; sys.stderr.write('no paper'); sys.exit({code})")
    assert (job.state, job.code) == (state, f"exit.{code}")
    assert "no paper" in str(list(bench.store.records.events(job.subject))[-1].detail)


FLOOD = """
import sys
for _ in range(256):
    sys.stdout.write("o" * (1 << 20)); sys.stderr.write("e" * (1 << 20))
print(); print('{"said": 1}')
"""


def flooded() -> tuple[str | None, Mapping[str, Any], int, int]:
    """How such a job ended, with what, what is told of it, and how many bytes its worker grew by at most."""
    with open_store("sqlite://:memory:") as store:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        bench = Bench(store, HandClock())
        job = ran(bench, FLOOD)
        told = list(store.records.events(job.subject))[-1].detail["output"]
        return job.ended, job.facts, len(told), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def test_a_program_that_talks_without_end_does_not_fill_the_worker() -> None:
    """256 MiB on each of its outputs, of which a mebibyte each is kept."""
    *outcome, grown = in_own_process(flooded)
    assert outcome == ["passed", {"said": 1}, MOST_TOLD]
    assert grown < 32 * MOST_KEPT


def test_one_that_cannot_be_started_fails(bench: Bench, tmp_path: Path) -> None:
    number = bench.submit()
    bench.worker(executable("parcel", [str(tmp_path / "nothing")])).run_until_idle()
    assert (bench.job(number).state, bench.job(number).code) == ("failed", "command.start")
