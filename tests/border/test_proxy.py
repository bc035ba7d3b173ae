"""The proxy by itself: who is refused, with which words, and that nothing is looked up or called before it is judged."""

from __future__ import annotations

import random
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network

import pytest

from custody.border.egress import tls_hello
from custody.border.egress.allowance import Egress, Rules
from custody.border.egress.gate import Gate
from custody.border.egress.proxy import Proxy, is_ours
from custody.border.egress.request import read_request
from custody.errors import BadInput, CustodyError, Refused, Unavailable

PUBLIC = "93.184.216.34"
SECONDS = 60.0


@dataclass
class Out:
    """A proxy whose names are a table and whose far side is in this process."""

    granted: Sequence[str] = ("data.example.org:443",)
    names: dict[str, list[str]] = field(default_factory=lambda: {"data.example.org": [PUBLIC]})
    rules: Rules = field(default_factory=Rules)
    asked: Sequence[str] = ()
    told: list[str] = field(default_factory=list)
    looked_up: list[str] = field(default_factory=list)
    called: list[tuple[str, int]] = field(default_factory=list)
    far: list[socket.socket] = field(default_factory=list)
    ours: Sequence[str] = ("93.184.216.1",)
    gate: Gate = field(default_factory=Gate)

    def __post_init__(self) -> None:
        egress = Egress("archive/book", tuple(self.granted), tuple(self.asked), self.rules)
        self.proxy = Proxy(
            egress,
            self.told.append,
            resolve=self._resolve,
            dial=self._dial,
            ours=lambda address: address in self.ours,
            gate=self.gate,
        )

    def _resolve(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        if host not in self.names:
            raise Unavailable("the host's address could not be found", code="dns.unavailable")
        return self.names[host]

    def _dial(self, address: str, port: int, seconds: float) -> socket.socket:
        self.called.append((address, port))
        ours, theirs = socket.socketpair()
        self.far.append(theirs)
        theirs.settimeout(SECONDS)
        return ours

    def far_side(self) -> socket.socket:
        until = time.monotonic() + SECONDS
        while not self.far and time.monotonic() < until:
            time.sleep(0.01)
        return self.far[-1]

    @contextmanager
    def line(self) -> Iterator[socket.socket]:
        ours, theirs = socket.socketpair()
        before = len(self.far)
        ours.settimeout(SECONDS)
        thread = threading.Thread(target=self.proxy.serve, args=(theirs,))
        thread.start()
        with ours:
            yield ours
        for far in self.far[before:]:
            far.close()
        thread.join(SECONDS)
        assert not thread.is_alive()

    def says(self, request: bytes) -> str:
        with self.line() as line:
            line.sendall(request)
            return everything(line)


def everything(line: socket.socket) -> str:
    data = b""
    while piece := line.recv(65536):
        data += piece
    return data.decode()


def connect(place: str = "data.example.org:443") -> bytes:
    return f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()


def test_a_refusal_has_a_status_a_reason_and_says_what_to_do() -> None:
    out = Out()
    said = out.says(connect("files.example.org:443"))
    head, _, body = said.partition("\r\n\r\n")
    assert head.splitlines()[:2] == ["HTTP/1.1 403 Forbidden", "X-Custody-Reason: egress.host"]
    assert "custody archive grant book network files.example.org:443 --why" in body
    assert out.told == [f"network: {body.splitlines()[0]}; {body.splitlines()[1]}"]
    assert (out.looked_up, out.called) == ([], []), "names tell too: nothing is looked up that is not granted"
    out.says(connect("files.example.org:443"))
    assert len(out.told) == 1, "said once"


ADDRESSES = {
    "loopback": ["127.0.0.1"],
    "inner": ["10.0.0.1"],
    "metadata": ["169.254.169.254"],
    "link": ["fe80::1"],
    "one of two": [PUBLIC, "192.168.0.1"],
    "mapped": ["::ffff:127.0.0.1"],
    "nat64": ["64:ff9b::7f00:1"],
    "ours": ["93.184.216.1"],
    "unique local": ["fd00::1"],
    "nothing": ["0.0.0.0"],
    "shared": ["100.64.0.1"],
    "an odd one": ["not an address"],
    "multicast": ["224.0.0.1"],
}


@pytest.mark.proves("H3")
@pytest.mark.parametrize("name", ADDRESSES)
def test_a_name_that_leads_inside_is_not_called_and_the_answer_does_not_say_where(name: str) -> None:
    out = Out(names={"data.example.org": ADDRESSES[name]})
    said = out.says(connect())
    assert "X-Custody-Reason: egress.address" in said
    assert out.called == []
    assert not any(address in said + str(out.told) for address in ADDRESSES[name])


def test_what_the_configuration_opens_can_be_granted_and_only_that() -> None:
    rules = Rules(inner=("10.1.0.0/16",))
    for address, code in {"10.1.2.3": "200", "10.2.2.3": "403", PUBLIC: "200"}.items():
        out = Out(rules=rules, names={"data.example.org": [address]})
        with out.line() as line:
            line.sendall(connect())
            assert line.recv(4096).decode().split(" ")[1] == code, address


NEVER = [
    "93.184.216.1",
    "10.1.0.2",
    "127.0.0.1",
    "0.0.0.0",
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "::1",
    "::",
    "fe80::1",
    "fd00:ec2::254",
    "::ffff:10.1.2.3",
    "64:ff9b::7f00:1",
]


@pytest.mark.proves("H3")
@pytest.mark.parametrize("address", NEVER)
def test_no_configuration_opens_the_machine_itself_or_the_metadata(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    monkeypatch.setattr(Rules, "networks", lambda rules: everything)  # as if such a value had been taken
    out = Out(names={"data.example.org": [address]}, ours=("93.184.216.1", "10.1.0.2"))
    assert "X-Custody-Reason: egress.address" in out.says(connect())
    assert out.called == []


@pytest.mark.parametrize(
    "place", [f"{PUBLIC}:443", "10.1.2.3:443", "127.0.0.1:443", "[::1]:443", "169.254.169.254:443"]
)
@pytest.mark.parametrize("granted", [True, False])
def test_an_address_in_place_of_a_name_is_refused_as_such(place: str, granted: bool) -> None:
    out = Out(granted=["*:443", place] if granted else [], rules=Rules(inner=("10.1.0.0/16",)))
    said = out.says(connect(place))
    assert "X-Custody-Reason: egress.address" in said
    assert "in place of a host's name" in said
    assert "custody archive grant" not in said, "no grant would help"
    assert (out.looked_up, out.called) == ([], [])


@pytest.mark.parametrize("place", ["localhost:443", "a.localhost:443", "nas:443"])
def test_no_grant_is_named_that_could_not_be_given(place: str) -> None:
    said = Out().says(connect(place))
    assert "HTTP/1.1 403" in said
    assert "custody archive grant" not in said


def test_what_is_neither_asked_for_nor_granted_is_told_so() -> None:
    said = Out(asked=["data.example.org:443"]).says(connect("files.example.org:443"))
    assert "files.example.org:443 is neither asked for nor granted to book" in said
    assert "`network` has to name it" in said
    assert "custody archive grant book network files.example.org:443 --why" in said


@pytest.mark.proves("H3")
def test_the_connection_goes_to_the_address_that_was_judged() -> None:
    out = Out()
    with out.line() as line:
        line.sendall(connect())
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
    assert (out.looked_up, out.called) == (["data.example.org"], [(PUBLIC, 443)])


def client_hello(name: str | None) -> bytes:
    """As a real client says it."""
    context, come, go = ssl.create_default_context(), ssl.MemoryBIO(), ssl.MemoryBIO()
    context.check_hostname = False
    talking = context.wrap_bio(come, go, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        talking.do_handshake()
    return go.read()


def test_what_a_client_says_first_is_passed_on_unchanged_if_it_names_the_host() -> None:
    out, first = Out(), client_hello("data.example.org")
    with out.line() as line:
        line.sendall(connect())
        line.recv(4096)
        for byte in first[:700]:  # however it is cut
            line.sendall(bytes([byte]))
        line.sendall(first[700:])
        assert out.far[0].recv(len(first), socket.MSG_WAITALL) == first
        out.far[0].sendall(b"and back")
        assert line.recv(100) == b"and back"


@pytest.mark.parametrize(
    "first",
    [
        client_hello("other.example.org"),
        client_hello(None),
        b"GET / HTTP/1.1\r\nHost: data.example.org\r\n\r\n",
        b"\x16\x03\x01",
    ],
)
def test_what_names_another_host_or_none_is_cut_and_never_arrives(first: bytes) -> None:
    out = Out()
    with out.line() as line:
        line.sendall(connect())
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        line.sendall(first)
        line.shutdown(socket.SHUT_WR)
        assert line.recv(4096) == b""
        assert out.far[0].recv(4096) == b""


def test_a_name_of_tls_is_read_whole_or_not_at_all() -> None:
    first = client_hello("data.example.org")
    assert tls_hello.server_name(first) == "data.example.org"
    for size in range(len(first)):
        with pytest.raises(tls_hello.Unfinished):
            tls_hello.server_name(first[:size])
    split = b"".join(b"\x16\x03\x01\x00\x01" + first[at : at + 1] for at in range(5, len(first)))
    assert tls_hello.server_name(split) == "data.example.org", "put together from records of one byte"
    hidden = first[:-1]
    with pytest.raises((tls_hello.Unfinished, BadInput)):
        tls_hello.server_name(hidden)


@pytest.mark.parametrize("kind", ["fe0d", "fe0a", "fe08", "ff02", "ffce"])
def test_an_encrypted_name_is_refused(kind: str) -> None:
    first = bytearray(client_hello("data.example.org"))
    extension = bytes.fromhex(kind) + b"\x00\x01\x00"
    length = int.from_bytes(first[3:5], "big")
    first[3:5] = (length + len(extension)).to_bytes(2, "big")
    first[6:9] = (int.from_bytes(first[6:9], "big") + len(extension)).to_bytes(3, "big")
    at = 9 + 2 + 32
    at += 1 + first[at]
    at += 2 + int.from_bytes(first[at : at + 2], "big")
    at += 1 + first[at]
    first[at : at + 2] = (int.from_bytes(first[at : at + 2], "big") + len(extension)).to_bytes(2, "big")
    with pytest.raises(BadInput, match="hides"):
        tls_hello.server_name(bytes(first) + extension)


@pytest.mark.proves("H2")
def test_no_first_words_are_a_surprise() -> None:
    chance, first = random.Random(7), client_hello("data.example.org")
    for _ in range(5_000):
        damaged = bytearray(first)
        for _ in range(chance.choice((1, 2, 8))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            tls_hello.server_name(bytes(damaged[: chance.choice((len(damaged), chance.randrange(len(damaged))))]))
        except (tls_hello.Unfinished, CustodyError):
            pass


def test_a_plain_request_is_written_anew() -> None:
    out = Out(granted=["http://data.example.org"])
    with out.line() as line:
        line.sendall(
            b"POST http://data.example.org/a%20b?c HTTP/1.1\r\nHost: inside.example.org\r\nProxy-Authorization: Basic x\r\n"
            b"Proxy-Connection: close\r\nConnection: X-Mine, keep-alive\r\nX-Mine: 1\r\nTE: trailers\r\nAccept: */*\r\n"
            b"content-length: 3\r\n\r\nabcGET http://inside.example.org/ HTTP/1.1\r\n\r\n"
        )
        far = out.far_side()
        data = far.recv(65536)
        while not data.endswith(b"abc"):
            data += far.recv(65536)
        far.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        far.close()
        assert line.recv(4096).startswith(b"HTTP/1.1 204")
    assert data.decode().splitlines() == [
        "POST /a%20b?c HTTP/1.1",
        "Host: data.example.org",
        "accept: */*",
        "Content-Length: 3",
        "Connection: close",
        "",
        "abc",
    ]


def test_what_is_withdrawn_is_cut_and_what_is_not_goes_on() -> None:
    out = Out(
        granted=["data.example.org:22", "git.example.org:22"],
        names={"data.example.org": [PUBLIC], "git.example.org": [PUBLIC]},
    )
    with out.line() as data, out.line() as git:
        for line, host in ((data, "data"), (git, "git")):
            line.sendall(connect(f"{host}.example.org:22"))
            assert line.recv(4096).startswith(b"HTTP/1.1 200")
        out.proxy.grant(["git.example.org:22"])
        assert data.recv(10) == b""
        git.sendall(b"more")
        assert out.far[1].recv(4) == b"more"
        out.proxy.grant([])
        assert git.recv(10) == b""
    assert "X-Custody-Reason: egress.host" in out.says(connect("git.example.org:22"))


def test_nothing_passes_while_the_gate_is_held_and_what_is_withdrawn_meanwhile_is_cut() -> None:
    now = [100.0]
    out = Out(granted=["data.example.org:22"], gate=Gate(fresh=110.0, lease=200.0, now=lambda: now[0]))
    with out.line() as line:
        line.sendall(connect("data.example.org:22"))
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        line.sendall(b"one")
        assert out.far[0].recv(9) == b"one"
        now[0] = 110.0
        line.sendall(b"two")
        with out.line() as another:
            another.sendall(connect("data.example.org:22"))
            out.far[0].settimeout(0.3)
            with pytest.raises(TimeoutError):
                out.far[0].recv(9)
            assert len(out.called) == 1, "nobody is called either"
            out.far[0].settimeout(SECONDS)
            out.proxy.gate.renew(120.0, 200.0)
            assert out.far[0].recv(9) == b"two"
            assert another.recv(4096).startswith(b"HTTP/1.1 200")
        now[0] = 120.0
        line.sendall(b"three")
        out.proxy.grant([])
        out.proxy.gate.renew(130.0, 200.0)
        assert out.far[0].recv(9) == b"", "not even what had come before it was withdrawn"


def test_when_the_lease_has_ended_nothing_begins_and_nothing_goes_on_until_there_is_another() -> None:
    now = [100.0]
    out = Out(granted=["data.example.org:22"], gate=Gate(fresh=500.0, lease=110.0, now=lambda: now[0]))
    with out.line() as line:
        line.sendall(connect("data.example.org:22"))
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        now[0] = 110.0
        assert out.proxy.gate.left == 0
        line.sendall(b"late")
        assert out.far[0].recv(9) == b""
    assert "X-Custody-Reason: egress.lease" in out.says(connect("data.example.org:22"))
    assert len(out.called) == 1
    out.proxy.gate.renew(500.0, 200.0)
    with out.line() as line:
        line.sendall(connect("data.example.org:22"))
        assert line.recv(4096).startswith(b"HTTP/1.1 200")


def test_budgets_are_of_all_connections_together() -> None:
    out = Out(granted=["data.example.org:22"], rules=Rules(megabytes_out=1, connections=2))
    place = connect("data.example.org:22")
    with out.line() as one, out.line() as two:
        for line in (one, two):
            line.sendall(place)
            assert line.recv(4096).startswith(b"HTTP/1.1 200")
        assert "more than 2 connections at once" in out.says(place)
        for line, far in ((one, out.far[0]), (two, out.far[1])):
            sender = threading.Thread(target=_send, args=(line, 700_000))
            sender.start()
            assert len(_received(far)) <= 700_000
            sender.join()
    assert "X-Custody-Reason: egress.budget" in out.says(place), "and the next one is refused at once"


def _send(line: socket.socket, size: int) -> None:
    try:
        line.sendall(bytes(size))
        line.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def _received(far: socket.socket) -> bytes:
    data = b""
    while piece := far.recv(65536):
        data += piece
    return data


def test_a_silent_connection_is_cut() -> None:
    out = Out(granted=["data.example.org:22"], rules=Rules(silence=0.2))
    with out.line() as line:
        line.sendall(connect("data.example.org:22"))
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        assert line.recv(4096) == b""
    assert "was silent" in out.told[0]


def test_much_passes_both_ways_at_once() -> None:
    out, size = Out(granted=["data.example.org:22"]), 3_000_000
    with out.line() as line:
        line.sendall(connect("data.example.org:22"))
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        senders = [threading.Thread(target=_send, args=(each, size)) for each in (line, out.far[0])]
        readers: list[bytes] = []
        threads = [
            threading.Thread(target=lambda each=each: readers.append(_received(each))) for each in (line, out.far[0])
        ]
        for thread in (*senders, *threads):
            thread.start()
        for thread in (*senders, *threads):
            thread.join(SECONDS)
    assert [len(data) for data in readers] == [size, size]


HEADS: dict[bytes, type[Exception]] = {
    b"": BadInput,
    b"GET": BadInput,
    b"GET / HTTP/1.1": BadInput,
    b"GET http://a.b/ HTTP/2": BadInput,
    b"CONNECT a.b HTTP/1.1": BadInput,
    b"CONNECT a.b:0 HTTP/1.1": BadInput,
    b"CONNECT a.b:443:1 HTTP/1.1": BadInput,
    b"CONNECT x@a.b:443 HTTP/1.1": Refused,
    b"CONNECT 127.1:443 HTTP/1.1": Refused,
    b"CONNECT a.b:443\tHTTP/1.1": BadInput,
    b"CONNECT  a.b:443 HTTP/1.1": BadInput,
    b"CONNECT a.b:443 HTTP/1.1\nX: y": BadInput,
    b"TRACE http://a.b/ HTTP/1.1": BadInput,
    b"GET https://a.b/ HTTP/1.1": BadInput,
    b"GET ftp://a.b/ HTTP/1.1": Refused,
    b"GET http://u:p@a.b/ HTTP/1.1": Refused,
    b"GET http://a.b/ HTTP/1.1\r\nA : b": BadInput,
    b"GET http://a.b/ HTTP/1.1\r\nA: b\nC: d": BadInput,
    b"GET http://a.b/ HTTP/1.1\r\n A: b": BadInput,
    b"GET http://a.b/ HTTP/1.1\r\nContent-Length: +3": BadInput,
    b"GET http://a.b/ HTTP/1.1\r\nContent-Length: 3, 3": BadInput,
    b"GET http://a.b/ HTTP/1.1\r\nTransfer-Encoding: x": BadInput,
    b"GET http://a.b\\@c.d/ HTTP/1.1": BadInput,
    b"GET http://a.b#c HTTP/1.1": BadInput,
    "CONNECT ä.b:443 HTTP/1.1".encode(): BadInput,
}


@pytest.mark.proves("H1")
@pytest.mark.parametrize("head", HEADS, ids=lambda head: repr(head)[2:-1])
def test_what_has_several_readings_is_refused(head: bytes) -> None:
    with pytest.raises(HEADS[head]):
        read_request(head)
    assert "HTTP/1.1 400" in Out().says(head + b"\r\n\r\n")


def test_what_is_ours_is_known_by_trying() -> None:
    assert is_ours("127.0.0.1")
    assert not is_ours(PUBLIC)
