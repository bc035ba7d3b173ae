"""What a hostile task or robot tries on the network, in a small world where all that it wants can be reached."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from border.egress_rig import CURL, OutBox, boxes, way
from custody.border.egress.allowance import Egress
from custody.border.sandbox import containers
from custody.border.sandbox.sandbox import Spec
from prove.plugin import Tell
from rig.outside import INSIDE, MACHINE, METADATA, OTHER, PUBLIC, Outside
from rig.podman import Podman
from rig.program import room, unprivileged_user

DATA = "data.example.org:443"
EGRESS = way(DATA)
EVERYTHING = way("*:443", "*:80", "*:8080", "http://*:80", "http://*:8080")
DIRECT = "curl -sS --noproxy '*' --max-time 3 -k"
THROUGH = "curl -sS --max-time 20 -k"
RAW = """python3 - <<'END'
import socket
wire = socket.create_connection(("127.0.0.1", 3128))
wire.settimeout(20)
wire.sendall({sent!r})
try:
    while piece := wire.recv(4096):
        print(piece.decode(errors="replace"))
except OSError as error:
    print(error)
END"""
FRONTED = """python3 - <<'END'
import socket, ssl
wire = socket.create_connection(("127.0.0.1", 3128))
wire.settimeout(20)
wire.sendall(b"CONNECT data.example.org:443 HTTP/1.1\\r\\n\\r\\n")
print(wire.recv(4096).decode())
context = ssl._create_unverified_context()
context.check_hostname = False
wire = context.wrap_socket(wire, server_hostname={name!r} or None)
wire.sendall(b"GET /hello HTTP/1.1\\r\\nHost: other.example.org\\r\\nConnection: close\\r\\n\\r\\n")
print(wire.recv(4096).decode())
END"""
ABSTRACT = """perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("\\0custody-outside")) or die $!;
print <S>'"""


@dataclass(frozen=True)
class Try:
    script: str
    network: Egress = EGRESS
    says: str = ""  # what is to be found in the log


TRIES = {
    "an abstract socket of the machine": Try(ABSTRACT, says="refused"),
    "the machine's loopback": Try(f"{DIRECT} http://127.0.0.1:8080/hello"),
    "the machine's loopback, sixth version": Try(f"{DIRECT} http://[::1]:8080/hello"),
    "the machine's own address": Try(f"{DIRECT} http://{MACHINE}/hello"),
    "a public server without the proxy": Try(f"{DIRECT} http://{PUBLIC}/hello"),
    "the metadata of the cloud": Try(f"{DIRECT} http://{METADATA}/hello"),
    "names without the proxy": Try("python3 -c 'import socket; print(socket.getaddrinfo(\"data.example.org\", 443))'"),
    "the machine's loopback through the proxy": Try(
        "no_proxy= NO_PROXY= " + f"{THROUGH} --proxytunnel http://127.0.0.1:8080/",
        EVERYTHING,
        "in place of a host's name",
    ),
    "the machine's loopback by plain http": Try(
        "http_proxy=http://127.0.0.1:3128 no_proxy= NO_PROXY= " + f"{THROUGH} http://127.0.0.1/hello",
        EVERYTHING,
        "in place of a host's name",
    ),
    "the sixth loopback through the proxy": Try(
        "no_proxy= NO_PROXY= " + f"{THROUGH} https://[::1]/hello", EVERYTHING, "in place of a host's name"
    ),
    "the machine's own address through the proxy": Try(
        f"{THROUGH} https://{MACHINE}/hello", EVERYTHING, "in place of a host's name"
    ),
    "a name of the machine's own address": Try(
        f"{THROUGH} https://machine.example.org/hello", EVERYTHING, "not public"
    ),
    "the metadata through the proxy": Try(
        f"{THROUGH} http://{METADATA}/hello", EVERYTHING, "in place of a host's name"
    ),
    "a name of the metadata": Try(f"{THROUGH} http://metadata.example.org/hello", EVERYTHING, "not public"),
    "an inner address": Try(f"{THROUGH} https://{INSIDE}/hello", EVERYTHING, "in place of a host's name"),
    "a name of an inner address": Try(f"{THROUGH} https://inside.example.org/hello", EVERYTHING, "not public"),
    "a name of an inner address that is granted by its name": Try(
        f"{THROUGH} https://inside.example.org/hello", way("inside.example.org"), "not public"
    ),
    "a name in the machine's list of hosts": Try(
        f"{THROUGH} https://listed.example.org/hello", EVERYTHING, "not public"
    ),
    "a name with a public and an inner address": Try(
        f"{THROUGH} https://both.example.org/hello", EVERYTHING, "not public"
    ),
    "a name of the loopback": Try(f"{THROUGH} http://loopback.example.org:8080/hello", EVERYTHING, "not public"),
    "a name of the sixth loopback": Try(f"{THROUGH} https://six.example.org/hello", EVERYTHING, "not public"),
    "an address in disguise": Try(f"{THROUGH} https://mapped.example.org/hello", EVERYTHING, "not public"),
    "a public address instead of a name": Try(
        f"{THROUGH} https://{PUBLIC}/hello", EVERYTHING, "in place of a host's name"
    ),
    "a number instead of a name": Try(f"{THROUGH} http://2130706433/hello", EVERYTHING),
    "an octal number": Try(RAW.format(sent=b"CONNECT 0177.0.0.1:443 HTTP/1.1\r\n\r\n"), EVERYTHING, "number"),
    "a host that is not granted": Try(
        f"{THROUGH} https://files.example.org/hello", says="custody archive grant book network files.example.org:443"
    ),
    "a port that is not granted": Try(
        f"{THROUGH} https://data.example.org:8080/hello", says="data.example.org:8080 is not granted"
    ),
    "plain http to a host that is granted": Try(
        f"{THROUGH} http://data.example.org/hello", says="http://data.example.org:80 is not granted"
    ),
    "a host two labels below": Try(
        f"{THROUGH} https://data.deep.example.org/hello", way("*.example.org"), "not granted"
    ),
    "the domain itself": Try(f"{THROUGH} https://example.org/hello", way("*.example.org"), "not granted"),
    "a host that was granted but not asked for": Try(
        f"{THROUGH} https://files.example.org/hello", way("*.example.org", asked=[DATA]), "not asked for"
    ),
    "a tunnel to one host, TLS to another": Try(FRONTED.format(name="other.example.org"), says="another host meant"),
    "a tunnel to one host, TLS to none": Try(FRONTED.format(name=""), says="another host meant"),
    "a tunnel without TLS": Try(
        RAW.format(sent=b"CONNECT data.example.org:443 HTTP/1.1\r\n\r\nSSH-2.0-x\r\n"), says="TLS"
    ),
    "a second request behind the first": Try(
        RAW.format(
            sent=b"GET http://data.example.org/hello HTTP/1.1\r\n\r\nGET http://other.example.org/ HTTP/1.1\r\nHost: other.example.org\r\n\r\n"
        ),
        way("http://data.example.org"),
    ),
    "a request with two lengths": Try(
        RAW.format(sent=b"POST http://data.example.org/ HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n"),
        way("http://data.example.org"),
        "said twice",
    ),
    "a length and chunks": Try(
        RAW.format(
            sent=b"POST http://data.example.org/ HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        way("http://data.example.org"),
        "not said",
    ),
    "a line that is folded": Try(
        RAW.format(sent=b"GET http://data.example.org/ HTTP/1.1\r\nA: b\r\n Host: other.example.org\r\n\r\n"),
        way("http://data.example.org"),
        "cannot be read",
    ),
    "a user before the host": Try(
        RAW.format(sent=b"CONNECT data.example.org:443@other.example.org:443 HTTP/1.1\r\n\r\n"), EVERYTHING
    ),
    "a NUL in the host": Try(RAW.format(sent=b"CONNECT data.example.org\0.evil:443 HTTP/1.1\r\n\r\n"), EVERYTHING),
}
MAY_BE_REACHED = {
    "a tunnel to one host, TLS to another",
    "a tunnel to one host, TLS to none",
    "a tunnel without TLS",
    "a second request behind the first",
}


@pytest.fixture(params=["root", "an ordinary user"])
def here(
    request: pytest.FixtureRequest, outside: Outside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OutBox]:
    if request.param == "root":
        with boxes(outside, tmp_path, monkeypatch) as made:
            yield made
        return
    import os

    folder = room("egress", unprivileged_user())
    with boxes(outside, folder, monkeypatch, unprivileged_user()) as made:
        for part in (made.work, made.sandboxes.root):
            os.chown(part, folder.stat().st_uid, folder.stat().st_gid)
        yield made


@pytest.mark.proves("P5")
def test_no_try_gets_anywhere(here: OutBox, outside: Outside, tell: Tell) -> None:
    got_through = []
    for what, tried in TRIES.items():
        outside.forget()
        _, printed = here.run(f"set +e\n{tried.script}\n", network=tried.network)
        assert tried.says in printed, (what, printed)
        for told in (INSIDE, METADATA, "::1", "127.0.0.1"):
            assert f"leads to {told}" not in printed, (what, printed)
        paths = [hit for hit in outside.hits("far") if "path" in hit]
        allowed = [hit for hit in paths if hit.get("host") == "data.example.org"] if what in MAY_BE_REACHED else []
        served = "hello from outside" in printed and not allowed
        if outside.reached() or len(paths) > len(allowed) or served or "hello from the host" in printed:
            got_through.append(what)
    tell("tries on the network", tries=len(TRIES), got_through=len(got_through))
    assert got_through == []


@pytest.mark.proves("P5")
def test_a_name_that_changes_its_mind_leads_nowhere_inside(here: OutBox, outside: Outside, tell: Tell) -> None:
    ask = f"{CURL} https://rebinding.example.org/hello"
    _, printed = here.run(f"set +e\n{ask}\n{ask}\n{ask}\n", network=way("rebinding.example.org"))
    assert "not public" in printed
    asked = [hit for hit in outside.hits("far") if hit.get("name") == "rebinding.example.org" and hit["kind"] == 1]
    reached = [hit for hit in outside.hits("far") if hit.get("path")]
    assert len(asked) == 3, "one look for each connection, which goes to the address that was judged"
    assert all(hit["at"].endswith(PUBLIC) for hit in reached)
    tell("", tries=3, got_through=len(outside.reached()))
    assert outside.reached() == []


@pytest.mark.proves("P5")
def test_what_is_inside_cannot_be_told_from_what_is_not_there(here: OutBox, outside: Outside, tell: Tell) -> None:
    script = "set +e\n" + "\n".join(
        f"{THROUGH} https://{name}.example.org/" for name in ("inside", "loopback", "machine")
    )
    _, printed = here.run(script, network=EVERYTHING)
    told = {line.partition(" leads to ")[2] for line in printed.splitlines() if " leads to " in line}
    assert len(told) == 1, told
    assert not any(address in printed for address in (INSIDE, MACHINE, "127.0.0.1:4", METADATA))
    tell("", tries=3, got_through=0)


@pytest.mark.proves("P5")
def test_budgets_hold(here: OutBox, outside: Outside, tell: Tell) -> None:
    network = way(DATA, megabytes_in=1, megabytes_out=1, connections=4)
    down = f"set +e; {CURL} https://data.example.org/zeroes/8000000 >got; wc -c <got"
    _, printed = here.run(down, network=network)
    assert (here.work / "got").stat().st_size < 1_100_000
    assert "the budget is used up: 1 MiB were got" in printed
    up = f"set +e; head -c 8000000 /dev/zero | {CURL} --data-binary @- https://data.example.org/x"
    _, printed = here.run(up, network=network)
    assert "the budget is used up: 1 MiB were sent" in printed
    assert all(hit["posted"] <= 1 << 20 for hit in outside.hits("far") if "posted" in hit)
    many = (
        "set +e; for n in 1 2 3 4 5 6 7 8; do "
        + f"{CURL} -N --max-time 2 https://data.example.org/slow >/dev/null & done; wait"
    )
    outside.forget()
    _, printed = here.run(many, network=network)
    assert "more than 4 connections at once" in printed
    tell("", tries=3, got_through=0)


@pytest.mark.proves("P5")
def test_a_silent_connection_and_one_that_never_asks_are_cut(here: OutBox, outside: Outside, tell: Tell) -> None:
    script = RAW.format(sent=b"CONNECT data.example.org:8080 HTTP/1.1\r\n\r\n")
    began = time.monotonic()
    _, printed = here.run(script, network=way("data.example.org:8080", silence=0.5))
    assert "200 Connection established" in printed
    assert "was silent" in printed
    assert time.monotonic() - began < 15
    tell("", tries=1, got_through=0)


@pytest.mark.proves("P5")
def test_an_image_has_the_same_way_out_and_no_other(
    outside: Outside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, podman: Podman, tell: Tell
) -> None:
    for name, value in podman.environ.items():
        if name.startswith("CONTAINERS"):
            monkeypatch.setenv(name, value)
    script = f"""
import os, socket
def ask(place, by):
    try:
        wire = socket.socket()
        wire.settimeout(20)
        wire.connect((by[0].encode(), int(by[1])))
        wire.sendall(b"GET http://" + place.encode() + b"/hello HTTP/1.1\\r\\n\\r\\n")
        answer = b""
        while piece := wire.recv(4096):
            answer += piece
        return answer.decode()
    except OSError as error:
        return str(error)
proxy = os.environ["http_proxy"].removeprefix("http://").split(":")
print(*os.listdir("/sys/class/net"), flush=True)
print(ask("data.example.org", proxy))
for place in {["files.example.org", METADATA, "inside.example.org"]}:
    assert "403" in ask(place, proxy)
for host, port in {[("127.0.0.1", 8080), (MACHINE, 80), (PUBLIC, 80), (OTHER, 80)]}:
    assert "200" not in ask(host, (host, port))
"""
    network = way("http://data.example.org", "http://inside.example.org", f"http://{METADATA}")
    with boxes(outside, tmp_path, monkeypatch) as made:
        spec = {"name": "an-image", "work": made.work, "script": script, "shell": ("python3", "-u"), "network": network}
        spec |= {"image": podman.add_python(), "engine": containers.engine("podman"), "timeout": 60.0}
        running = made.sandboxes.start(Spec(**spec))  # type: ignore[arg-type]
        end = running.wait(120)
        printed = running.output().decode()
        running.remove()
    assert end is not None
    assert end.ok, (end, printed)
    assert printed.count("hello from outside") == 1
    assert printed.splitlines()[0] == "lo"
    assert "http://files.example.org:80 is not granted" in printed
    assert outside.reached() == []
    assert podman.podman("ps", "--all", "--quiet").strip() == ""
    tell("", tries=7, got_through=0)


def test_a_hostile_world_is_hostile_enough(here: OutBox, outside: Outside) -> None:
    """The same tries reach what they want where there is nobody between: all of it is there."""
    import subprocess

    from rig.program import tool

    outside.forget()
    words = [
        tool("nsenter"),
        "--target",
        str(outside.machine),
        "--net",
        "--mount",
        "curl",
        "-sS",
        "-k",
        "--max-time",
        "20",
    ]
    names = ["inside", "metadata", "machine", "loopback", "both", "listed"]
    places = [f"https://{name}.example.org/hello" for name in names] + [
        "http://[::1]:8080/hello",
        f"http://{METADATA}/hello",
    ]
    for place in places:
        done = subprocess.run([*words, place], capture_output=True, text=True)
        assert done.stdout == "hello from outside\n", (place, done.stderr)
    assert len(outside.reached()) >= len(places) - 1
