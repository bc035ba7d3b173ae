"""Runs that come and go: state between them, two at once, one that is killed, and the ready workflow file."""

from __future__ import annotations

import io
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from channels.conftest import Clock
from channels.office import PROGRAM, Office, kill, office, own_sources, until
from custody.channels.blobs.local import Files
from custody.channels.blobs.port import Blobs
from custody.channels.coordinators import ephemeral
from custody.channels.coordinators.ephemeral import MOST_SHARDS, Shard, State, state_of
from custody.channels.discord.shared_rate_limit import PER_SECOND
from custody.demo.standins.discord_guild import Channel, World
from custody.errors import BadInput, LeaseLost, Refused
from custody.kernel.stores import open_store
from rig.azurite import Azurite

INSTALLING = ("Look at what was fetched", "Install")  # tests/deploy looks at these
WORKFLOW = Path(__file__).parents[2] / "deploy" / "github-actions" / "mirror-channels.yml"


@contextmanager
def several(folder: Path, count: int = 4, messages: int = 150, **more: Any) -> Iterator[tuple[Office, list[Channel]]]:
    world = World(seed=31)
    channels = [world.add(0, f"c{n}", messages) for n in range(count)]
    listed = [str(channel.id) for channel in channels]
    with office(folder, world, mirror=listed, **more) as here:
        yield here, channels


# --- Shards ---


@pytest.mark.parametrize("of", [1, 2, 7, MOST_SHARDS])
def test_every_channel_is_in_exactly_one_shard_and_the_limit_is_shared_out(of: int) -> None:
    shards = [Shard.read(f"{number}/{of}") for number in range(1, of + 1)]
    for channel in range(90_000_000_000_000, 90_000_000_000_200):
        assert sum(shard.has(channel) for shard in shards) == 1
    assert sum(shard.per_second for shard in shards) == pytest.approx(PER_SECOND)
    assert len({shard.blob for shard in shards}) == of


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/21", "1", "a/b", "-1/2", ""])
def test_what_is_no_shard_is_said(text: str) -> None:
    with pytest.raises(BadInput):
        Shard.read(text)


# --- The state between runs ---


def test_the_state_is_what_the_last_run_put_back_and_only_one_has_it(blobs: Blobs, tmp_path: Path) -> None:
    shard = Shard(1, 2)
    with state_of(blobs, shard, tmp_path / "a.db") as first:
        assert not first.file.exists(), "there was none before"
        first.file.write_bytes(b"one" * 3_000_000)
        first.put_back()
        with pytest.raises(Refused, match="another run is at work on shard 1/2"):
            State(blobs, shard, tmp_path / "b.db")
        with state_of(blobs, Shard(2, 2), tmp_path / "c.db") as other:
            assert not other.file.exists(), "shards share nothing"
    with state_of(blobs, shard, tmp_path / "b.db") as second:
        assert second.file.read_bytes() == b"one" * 3_000_000
        second.file.write_bytes(b"two")
        second.put_back()
    assert blobs.read(shard.blob).data == b"two"


def test_a_run_that_lost_its_lease_puts_nothing_back(files: Files, clock: Clock, tmp_path: Path) -> None:
    stale = State(files, Shard(), tmp_path / "a.db")
    clock.advance(seconds=61)  # it slept
    with state_of(files, Shard(), tmp_path / "b.db") as fresh:
        fresh.file.write_bytes(b"mine")
        fresh.put_back()
        stale.file.write_bytes(b"old")
        with pytest.raises(Refused):
            stale.put_back()
    stale.close()
    assert files.read(Shard().blob).data == b"mine"


def test_a_run_notices_that_its_lease_is_gone(
    files: Files, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ephemeral, "RENEW_SECONDS", 0.01)
    stale = State(files, Shard(), tmp_path / "a.db")
    stale._over.set()  # its keeper stands still, as its machine does
    stale._thread.join()
    clock.advance(seconds=61)
    fresh = State(files, Shard(), tmp_path / "b.db")
    stale._over.clear()
    keeper = threading.Thread(target=stale._keep)
    keeper.start()
    assert stale.lost.wait(60)
    keeper.join()
    with pytest.raises(LeaseLost):
        ephemeral.run_shard(stale, time.monotonic() + 60, lambda: open_store("sqlite://:memory:"), lambda _, __: True)
    fresh.close()


# --- Whole runs, as commands ---


def test_shards_together_mirror_everything_and_the_next_run_knows_it(tmp_path: Path) -> None:
    with several(tmp_path) as (here, channels):
        for shard in ("1/2", "2/2"):
            assert "the state is kept" in here.run("channel", "run", "--until-idle", "--shard", shard)
        assert all(map(here.same, channels))
        asked = len(here.standin.asked)
        for shard in ("1/2", "2/2"):
            here.run("channel", "run", "--until-idle", "--shard", shard)
        assert len(here.standin.asked) - asked <= 3 * len(channels), "one question each: is there anything new?"
        states = Files(here.folder / "channels")
        for shard in (Shard(1, 2), Shard(2, 2)):
            with state_of(states, shard, tmp_path / f"{shard.number}.db") as state:
                with open_store(f"sqlite:///{state.file}") as store:
                    items = {item.id: item for item in store.records.items(type_="channel")}
                    mine = {f"channel/{channel.id}" for channel in channels if shard.has(channel.id)}
                    assert set(items) == mine
                    for item in mine:
                        types = [event.type for event in store.records.events(f"item/{item}")]
                        assert types == ["changed", "added", "described", "synced"], "history goes on from run to run"


@pytest.mark.kills
def test_two_runs_at_once_and_one_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with several(tmp_path, count=1, messages=1_000) as (here, (channel,)):
        gate = threading.Event()

        def hold(_: int, page: int) -> None:
            if page > 3:
                gate.wait(60)

        here.standin.switches.between_pages = hold
        first = here.start("channel", "run", "--until-idle", "--shard", "1/1")
        until(lambda: here.standin.pages.get(channel.id, 0) > 3, here.log())
        said = here.run("channel", "run", "--until-idle", "--shard", "1/1", code=3)
        assert "another run is at work on shard 1/1" in said
        assert kill(first)
        gate.set()
        assert len(list(here.table(channel.id).between())) == 298
        here.run("channel", "run", "--until-idle", "--shard", "1/1", code=3)  # its lease has not ended yet
        ahead = Files(here.folder / "channels", Clock())  # a minute and more later
        ahead._clock.now = ahead._clock.now.replace(year=2099)  # type: ignore[union-attr]
        monkeypatch.setattr("custody.channels.commands.run.open_blobs", lambda *_: ahead)
        here.run("channel", "run", "--until-idle", "--shard", "1/1")
        assert here.same(channel)


# --- The ready workflow file ---


def read_workflow() -> Any:
    return YAML(typ="safe").load(io.StringIO(WORKFLOW.read_text()))


def test_the_workflow_file_names_all_its_shards_and_never_runs_one_twice_at_once() -> None:
    job = read_workflow()["jobs"]["mirror"]
    shards = [Shard.read(text) for text in job["strategy"]["matrix"]["shard"]]
    assert sorted(shard.number for shard in shards) == list(range(1, shards[0].of + 1))
    assert {shard.of for shard in shards} == {len(shards)}
    assert job["concurrency"]["cancel-in-progress"] is False
    assert "matrix.shard" in job["concurrency"]["group"]
    minutes = int(re.findall(r"--max-minutes (\d+)", job["steps"][-1]["run"])[0])
    assert minutes < job["timeout-minutes"] <= 360


def test_the_steps_of_the_workflow_file_work_as_written(tmp_path: Path, azurite: Azurite) -> None:
    pytest.importorskip("azure.storage.blob")
    with several(tmp_path, count=2, messages=60, container="t" + os.urandom(6).hex()) as (here, channels):
        (here.folder / "discord.token").unlink()
        program = tmp_path / "bin" / "custody"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {" ".join(PROGRAM)} "$@"\n')
        program.chmod(0o755)
        secrets = {"DISCORD_TOKEN": "token", "AZURE_CONNECTION": azurite.connection_string}
        for step in read_workflow()["jobs"]["mirror"]["steps"]:
            if "run" in step and step["name"] not in INSTALLING:
                given = {name: secrets.get(name, "1/1") for name in step.get("env", {})}
                environ = own_sources() | given | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
                done = subprocess.run(
                    ["bash", "-e", "-c", step["run"]], cwd=here.folder, env=environ, capture_output=True, text=True
                )
                assert done.returncode == 0, done.stdout + done.stderr
        assert all(map(here.same, channels))
