"""The stream of changes: prompt, throttled, one look at the history for all, gone when the server stops."""

from __future__ import annotations

import asyncio
import http.client
import json
import time

from custody.kernel.model.job import NewJob
from custody.web import live_updates
from custody.web.live_updates import Changes
from custody.web.server import Server
from web.house import House


def test_a_change_is_told_within_a_second_and_many_are_told_together(own: House) -> None:
    server = Server(own.app).start()
    reader = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    reader.request("GET", "/api/v1/stream", headers={"Authorization": f"Bearer {own.token('reader')}"})
    answer = reader.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert b"retry" in answer.readline()
    time.sleep(0.3)
    began = time.monotonic()
    jobs = [own.archive.store.queue.submit_one(NewJob("parcel")).id for _ in range(20)]
    submitting = time.monotonic() - began  # a disk may take its time
    messages = []
    while sum(message["events"] for message in messages) < 20:
        line = answer.readline().decode()
        if line.startswith("data: "):
            messages.append(json.loads(line[6:]))
    assert time.monotonic() - began < live_updates.BEAT_SECONDS + 10 * submitting, "long before the next beat"
    assert len(messages) <= 3 + submitting / live_updates.PAUSE_SECONDS, "told together, not one by one"
    assert f"job/{jobs[-1]}" in messages[-1]["subjects"]
    stopping = time.monotonic()
    server.stop()
    assert time.monotonic() - stopping < 30, "an open stream does not keep the server"
    assert answer.read() in (b"", b"\n")
    reader.close()


def test_a_hundred_listeners_share_one_look(own: House) -> None:
    store = own.archive.store
    looks = 0
    since = store.records.since

    class Counting:
        db = store.db

        class records:
            @staticmethod
            def since(after: int, limit: int) -> object:
                nonlocal looks
                looks += 1
                return since(after, limit)

    async def listen(shared: Changes) -> int:
        count = 0
        async for line in shared.listen():
            count += "event: change" in line
            if count:
                return count
        return 0

    async def scene() -> list[int]:
        shared = Changes(Counting())  # type: ignore[arg-type]
        tasks = [asyncio.create_task(listen(shared)) for _ in range(100)]
        while shared.listeners < 100:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(store.queue.submit_one, NewJob("parcel"))
        told = await asyncio.wait_for(asyncio.gather(*tasks), 60)
        while shared.listeners:  # those who left are forgotten
            await asyncio.sleep(0.01)
        return list(told)

    began = time.monotonic()
    assert asyncio.run(scene()) == [1] * 100
    assert looks < 20 + (time.monotonic() - began) / live_updates.LOOK_SECONDS
    assert live_updates.PAUSE_SECONDS >= 0.5


def test_a_stream_begins_where_the_readers_page_stood_and_tells_nothing_twice(own: House) -> None:
    store = own.archive.store

    async def first(since: int) -> dict[str, int]:
        shared = Changes(store)
        async for line in shared.listen(since):
            if "event: change" in line:
                told: dict[str, int] = json.loads(line.split("data: ")[1])
                return told
        raise AssertionError("the stream ended")

    before = Changes(store).newest()
    jobs = [store.queue.submit_one(NewJob("parcel")).id for _ in range(3)]
    told = asyncio.run(asyncio.wait_for(first(before), 30))
    assert told["events"] == 3
    assert told["subjects"] == [f"job/{number}" for number in jobs]
    assert told["last"] == Changes(store).newest()


def test_whoever_sees_some_collections_is_not_told_the_names_of_other_things(own: House) -> None:
    server = Server(own.app).start()
    reader = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    told = {}
    for who in ("reader/maps", "reader@maps", "reader"):
        before = own.site.changes.newest()
        own.archive.store.queue.submit_one(NewJob("parcel", collection="papers"))
        reader.request("GET", f"/api/v1/stream?since={before}", headers={"Authorization": f"Bearer {own.token(who)}"})
        answer = reader.getresponse()
        while not (line := answer.readline().decode()).startswith("data: "):
            pass
        told[who] = json.loads(line[6:])
        reader.close()
    server.stop()
    assert all(each["events"] for each in told.values())
    assert [who for who, each in told.items() if each["subjects"]] == ["reader"]
