"""Nobody makes us connect to where they cannot connect themselves.

The resolver and the connector are recorders: no packet leaves. Each spelling is tried as a file to fetch, a
size to ask for, a callback to send, and as the target of a redirect.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from ipaddress import ip_network

import pytest

from custody.border.folder import Folder
from custody.border.http.addresses import system_resolver
from custody.border.http.fetch import Fetcher
from custody.border.http.policy import LOOPBACK, Policy
from custody.errors import BadInput, CustodyError, Refused, Unavailable

from .server import reply

PUBLIC = "93.184.215.14"
FORBIDDEN, SYNTAX = "url.forbidden_address", "url.syntax"
SCHEME, PORT, LOGIN = "url.forbidden_scheme", "url.forbidden_port", "url.credentials"

# What a hostile name server answers.
DNS: dict[str, list[str]] = {
    "good.example": [PUBLIC],
    "localhost": ["127.0.0.1"],
    "localhost.localdomain": ["::1", "127.0.0.1"],
    "127.0.0.1.nip.io": ["127.0.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "mixed.example": [PUBLIC, "127.0.0.1"],
    "mixed-last.example": ["127.0.0.1", PUBLIC],
    "mixed6.example": [PUBLIC, "::1"],
    "private.example": ["10.1.2.3"],
    "zone.example": ["fe80::1%eth0"],
    "odd.example": ["0177.0.0.1"],
    "mapped.example": ["::ffff:169.254.169.254"],
    "nowhere.example": [],
}


def _words(text: str) -> list[str]:
    return text.split()


LITERALS_V4 = _words("""
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.0.0.2
127.1.2.3 127.255.255.255 168.63.129.16 169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255
192.0.0.1 192.0.0.8 192.0.0.170 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 192.168.0.1
192.168.255.255 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 224.0.0.251
239.255.255.255 240.0.0.1 255.255.255.255
""")

LITERALS_V6 = _words("""
:: ::1 ::2 ::127.0.0.1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:93.184.215.14 ::ffff:0:127.0.0.1
64:ff9b::127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 100::1 2001::1 2001:0:7f00:1:: 2001:2::1 2001:10::1
2001:20::1 2001:1::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe::1 2620:4f:8000::1 3ffe::1 3fff::1 4000::1
5f00::1 fc00::1 fd00:ec2::254 fd20:ce::254 fe80::1 fe80::a9fe:a9fe fec0::1 ff00::1 ff02::1 ff0e::1
""")

# Spellings of an address that some resolver understands.
NUMBERS = _words("""
0 1 127 2130706433 017700000001 0x7f000001 0X7F000001 0x7f.1 0x7f.0.0.1 127.1 127.0.1 0177.1 0177.0.0.1
0177.0.0.01 127.0.0.01 00127.0.0.1 127.0.0.0x1 127.0.0.1.5 1.2.3.256 256.1.1.1 999999999999 0x 0x7f 3232235521
0xa9fea9fe 2852039166 0251.0376.0251.0376 169.254.43518 1.2.3.4.0x5 example.127
""")

SPELLINGS: list[tuple[str, str]] = [
    *((f"https://{address}/x", FORBIDDEN) for address in LITERALS_V4),
    *((f"https://[{address}]/x", FORBIDDEN) for address in LITERALS_V6),
    *((f"https://{number}/x", FORBIDDEN) for number in NUMBERS),
    *((f"https://{host}/x", FORBIDDEN) for host in DNS if host not in ("good.example", "nowhere.example")),
    ("https://LOCALHOST/x", FORBIDDEN),
    ("HTTPS://127.0.0.1/", FORBIDDEN),
    ("https://127.0.0.1:443/", FORBIDDEN),
    ("https://nowhere.example/", "url.unknown_host"),
    ("http://127.0.0.1/", FORBIDDEN),
    # schemes
    ("file:///etc/passwd", SCHEME),
    ("file://127.0.0.1/etc/passwd", SCHEME),
    ("ftp://good.example/x", SCHEME),
    ("gopher://good.example:70/_x", SCHEME),
    ("dict://good.example:11211/x", SCHEME),
    ("ldap://good.example/x", SCHEME),
    ("data:text/plain,hello", SCHEME),
    ("jar:https://good.example!/x", SCHEME),
    ("javascript:alert(1)", SCHEME),
    ("ws://good.example/", SCHEME),
    ("httpx://good.example/", SCHEME),
    ("localhost:443/x", SCHEME),
    # no single reading
    ("", SYNTAX),
    ("/etc/passwd", SYNTAX),
    ("//127.0.0.1/x", SYNTAX),
    ("good.example/x", SYNTAX),
    ("https:good.example/x", SYNTAX),
    ("https:/good.example/x", SYNTAX),
    ("https:///127.0.0.1/x", SYNTAX),
    ("https:////127.0.0.1/x", SYNTAX),
    ("https:/\\127.0.0.1/x", SYNTAX),
    ("https:\\\\127.0.0.1\\x", SYNTAX),
    ("https://good.example\\@127.0.0.1/", SYNTAX),
    ("https://127.0.0.1\\.good.example/", SYNTAX),
    ("https://good.example /x", SYNTAX),
    (" https://good.example/x", SYNTAX),
    ("https://good.example/x y", SYNTAX),
    ("https://good.example/\r\nHost: 127.0.0.1", SYNTAX),
    ("https://good.example/%0a\n", SYNTAX),
    ("https://good.example/\0", SYNTAX),
    ("https://good.ex\tample/", SYNTAX),
    ("https://good.example/\u202e", SYNTAX),
    ("https://good.example/#x", SYNTAX),
    ("https://good.example#@127.0.0.1/", SYNTAX),
    ("https://good.example./x", SYNTAX),
    ("https://localhost./x", SYNTAX),
    ("https://127.0.0.1./x", SYNTAX),
    ("https://.good.example/", SYNTAX),
    ("https://good..example/", SYNTAX),
    ("https://-good.example/", SYNTAX),
    ("https://good%2eexample/", SYNTAX),
    ("https://%31%32%37.0.0.1/", FORBIDDEN),
    ("https://good.example%00.evil/", SYNTAX),
    ("https://gооd.example/", SYNTAX),  # two of these letters are Cyrillic
    ("https://１２７.０.０.１/", SYNTAX),
    ("https://①②⑦.⓪.⓪.①/", SYNTAX),
    ("https://127。0。0。1/", SYNTAX),
    ("https://[::1/", SYNTAX),
    ("https://::1/", SYNTAX),
    ("https://[::1]x/", SYNTAX),
    ("https://[fe80::1%25eth0]/", SYNTAX),
    ("https://[fe80::1%eth0]/", SYNTAX),
    ("https://[v1.x]/", SYNTAX),
    ("https://[127.0.0.1]/", SYNTAX),
    ("https://[]/", SYNTAX),
    ("https://good.example:/", SYNTAX),
    ("https://good.example:0/", SYNTAX),
    ("https://good.example:0443/", SYNTAX),
    ("https://good.example:+443/", SYNTAX),
    ("https://good.example:65979/", SYNTAX),  # 65536 + 443
    ("https://good.example:443:80/", SYNTAX),
    ("https://good.example:４４３/", SYNTAX),
    ("https://" + "a" * 64 + ".example/", SYNTAX),
    ("https://" + "a." * 130 + "example/", SYNTAX),
    ("https://good.example/" + "a" * 9000, SYNTAX),
    # logins
    ("https://user@good.example/", LOGIN),
    ("https://user:secret@good.example/", LOGIN),
    ("https://good.example@127.0.0.1/", LOGIN),
    ("https://127.0.0.1:443@good.example/", LOGIN),
    ("https://@127.0.0.1/", LOGIN),
    ("https://a@b@127.0.0.1/", LOGIN),
    # ports of other services
    *((f"https://good.example:{port}/", PORT) for port in (22, 25, 2181, 3306, 5432, 6379, 8080, 9200, 65535)),
]


@dataclass
class Recorder:
    """Answers from a table, and writes down who was asked and connected to."""

    answers: dict[str, list[str]] = field(default_factory=lambda: dict(DNS))
    lookups: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    script: list[bytes] = field(default_factory=list)  # what the servers answer, one connection each
    heard: list[bytes] = field(default_factory=list)

    def resolve(self, host: str, port: int) -> list[str]:
        self.lookups.append(host)
        return self.answers[host]

    def connect(self, address: str, port: int, tick: Callable[[], None]) -> socket.socket:
        self.dialled.append((address, port))
        if not self.script:
            raise ConnectionRefusedError("nothing answers here")
        ours, theirs = socket.socketpair()
        answer = self.script.pop(0)

        def serve() -> None:
            with theirs:
                self.heard.append(theirs.recv(65536))
                theirs.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return ours

    def fetcher(self, policy: Policy) -> Fetcher:
        return Fetcher(policy, resolver=self.resolve, connector=self.connect)


ONCE = Policy(schemes=frozenset({"http", "https"}), tries=1, backoff_seconds=0)
WAYS: dict[str, Callable[[Fetcher, str, Folder], object]] = {
    "download": lambda fetcher, url, folder: fetcher.download(url, folder, "x"),
    "head": lambda fetcher, url, folder: fetcher.head(url),
    "post": lambda fetcher, url, folder: fetcher.post(url, b"", {}),
}


def test_the_table_is_as_long_as_promised() -> None:
    assert len({url for url, _ in SPELLINGS}) == len(SPELLINGS) >= 120


@pytest.mark.proves("H3")
@pytest.mark.parametrize(("url", "code"), SPELLINGS, ids=lambda value: ascii(value)[:50])
def test_no_spelling_gets_us_to_connect(url: str, code: str, folder: Folder) -> None:
    for name, way in WAYS.items():
        recorder = Recorder()

        with recorder.fetcher(ONCE) as fetcher, pytest.raises((Refused, BadInput)) as caught:
            way(fetcher, url, folder)

        assert (name, caught.value.code) == (name, code)
        assert recorder.dialled == []
        assert "secret" not in str(caught.value)
        assert str(caught.value).isprintable()
    assert folder.is_empty()


@pytest.mark.proves("H3")
@pytest.mark.parametrize(("url", "code"), SPELLINGS, ids=lambda value: ascii(value)[:50])
def test_no_redirect_gets_us_to_connect(url: str, code: str, folder: Folder) -> None:
    recorder = Recorder(script=[reply(b"", 302, Location=url.encode().decode("latin-1"))])

    with recorder.fetcher(ONCE) as fetcher, pytest.raises(CustodyError) as caught:
        fetcher.download("http://good.example/start", folder, "x")

    # Some are harmless as a redirect: relative, or only a fragment added, or not a header at all.
    assert recorder.dialled[0] == (PUBLIC, 80)
    assert {address for address, _ in recorder.dialled} == {PUBLIC}
    assert all(port in (80, 443) for _, port in recorder.dialled)
    if url.startswith(("https://", "http://", "file:", "//")) and code != SYNTAX:
        assert caught.value.code == code


PUBLIC_V4 = _words("""
8.8.8.8 93.184.215.14 1.1.1.1 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 223.255.255.255
168.63.129.17 11.0.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 192.167.255.255 192.169.0.0
""")


@pytest.mark.parametrize("address", PUBLIC_V4)
def test_public_addresses_are_connected_to(address: str, folder: Folder) -> None:
    recorder = Recorder(script=[reply(b"hello")])

    with recorder.fetcher(ONCE) as fetcher:
        fetcher.download(f"http://{address}/x", folder, "x")

    assert recorder.dialled == [(address, 80)]
    assert recorder.lookups == []


@pytest.mark.parametrize("address", ["2606:2800:21f:cb07:6820:80da:af6b:8b2c", "2400:cb00::1", "2a00:1450::1"])
def test_public_ipv6_addresses_are_connected_to(address: str, folder: Folder) -> None:
    recorder = Recorder(script=[reply(b"hello")])

    with recorder.fetcher(ONCE) as fetcher:
        fetcher.download(f"http://[{address}]/x", folder, "x")

    assert recorder.dialled == [(address, 80)]
    assert f"Host: [{address}]\r\n".encode() in recorder.heard[0]


def test_a_name_is_looked_up_once_and_the_judged_address_is_used(folder: Folder) -> None:
    # Given a name server that says something else the second time
    recorder = Recorder(script=[reply(b"one", Connection="close"), reply(b"two")])
    recorder.answers = {"good.example": [PUBLIC]}
    resolve = recorder.resolve

    def rebinding(host: str, port: int) -> list[str]:
        found = resolve(host, port)
        recorder.answers[host] = ["127.0.0.1"]
        return found

    # When two files are fetched, on two connections
    with Fetcher(ONCE, resolver=rebinding, connector=recorder.connect) as fetcher:
        fetcher.download("http://good.example/1", folder, "1")
        fetcher.download("http://good.example/2", folder, "2")

    # Then both went to the address that had been judged, under the host's own name
    assert recorder.lookups == ["good.example"]
    assert recorder.dialled == [(PUBLIC, 80)] * 2
    assert b"Host: good.example\r\n" in recorder.heard[1]


def test_a_later_lookup_is_judged_like_the_first(folder: Folder) -> None:
    recorder = Recorder(script=[reply(b"one", Connection="close"), reply(b"two")])
    with recorder.fetcher(replace(ONCE, lookup_seconds=-1)) as fetcher:
        fetcher.download("http://good.example/1", folder, "1")
        recorder.answers["good.example"] = ["127.0.0.1"]
        with pytest.raises(Refused) as caught:
            fetcher.download("http://good.example/2", folder, "2")

    assert caught.value.code == FORBIDDEN
    assert recorder.dialled == [(PUBLIC, 80)]


def test_every_hop_is_judged_and_the_fifth_is_the_last(folder: Folder) -> None:
    hops = [reply(b"", 302, Location=f"/{number}") for number in range(6)]
    recorder = Recorder(script=hops)
    with recorder.fetcher(ONCE) as fetcher, pytest.raises(Refused) as caught:
        fetcher.download("http://good.example/start", folder, "x")
    assert caught.value.code == "url.too_many_redirects"

    recorder = Recorder(script=[*hops[:5], reply(b"there")])
    with recorder.fetcher(ONCE) as fetcher:
        assert fetcher.download("http://good.example/start", folder, "x").size == 5


def test_a_redirect_to_another_host_is_looked_up_and_told_nothing_of_the_first(folder: Folder) -> None:
    recorder = Recorder(script=[reply(b"", 307, Location="//other.example/b#part"), reply(b"hello")])
    recorder.answers["other.example"] = ["8.8.4.4"]

    with recorder.fetcher(ONCE) as fetcher:
        fetcher.download("http://good.example/a?key=secret", folder, "x")

    assert recorder.dialled == [(PUBLIC, 80), ("8.8.4.4", 80)]
    assert recorder.heard[1].startswith(b"GET /b HTTP/1.1\r\nHost: other.example\r\n")
    assert b"secret" not in recorder.heard[1]
    for word in (b"cookie", b"authorization", b"referer"):
        assert word not in recorder.heard[1].lower()


def test_an_archive_can_forbid_its_own_public_addresses_and_allow_a_campus(folder: Folder) -> None:
    recorder = Recorder(script=[reply(b"hello")])
    policy = replace(ONCE, forbidden=(ip_network("93.184.215.0/24"),), networks=(ip_network("10.1.0.0/16"),))
    with recorder.fetcher(policy) as fetcher:
        with pytest.raises(Refused) as caught:
            fetcher.download("http://good.example/x", folder, "x")
        assert caught.value.code == FORBIDDEN
        assert fetcher.download("http://private.example/x", folder, "x").size == 5


@pytest.mark.parametrize("spelling", ["[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "0177.0.0.1", "2130706433"])
def test_allowing_loopback_does_not_allow_its_disguises(spelling: str, folder: Folder) -> None:
    recorder = Recorder()
    with recorder.fetcher(replace(ONCE, networks=LOOPBACK)) as fetcher, pytest.raises(Refused):
        fetcher.download(f"http://{spelling}/x", folder, "x")
    assert recorder.dialled == []


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        ("good.example", True),
        ("evil.example", False),
        ("a.campus.example", True),
        ("campus.example", False),
        ("xcampus.example", False),
        ("good.example.evil.example", False),
    ],
)
def test_a_collection_may_name_its_hosts(host: str, wanted: bool, folder: Folder) -> None:
    recorder = Recorder(script=[reply(b"hello")])
    recorder.answers[host] = [PUBLIC]
    with recorder.fetcher(replace(ONCE, hosts=("Good.example", "*.campus.example"))) as fetcher:
        if wanted:
            assert fetcher.download(f"http://{host}/x", folder, "x").size == 5
        else:
            with pytest.raises(Refused) as caught:
                fetcher.download(f"http://{host}/x", folder, "x")
            assert caught.value.code == "url.forbidden_host"
            assert recorder.lookups == []


def test_plain_http_is_only_for_collections_that_say_so(folder: Folder) -> None:
    recorder = Recorder()
    with recorder.fetcher(Policy()) as fetcher, pytest.raises(Refused) as caught:
        fetcher.download("http://good.example/x", folder, "x")
    assert (caught.value.code, recorder.lookups) == (SCHEME, [])


def test_the_next_address_is_tried_when_one_does_not_answer(folder: Folder) -> None:
    recorder = Recorder(answers={"good.example": ["8.8.8.8", "8.8.4.4"]})
    with recorder.fetcher(ONCE) as fetcher, pytest.raises(Unavailable) as caught:
        fetcher.download("http://good.example/x", folder, "x")
    assert caught.value.code == "net.unreachable"
    assert recorder.dialled == [("8.8.8.8", 80), ("8.8.4.4", 80)]


def test_a_resolver_that_never_answers_is_given_up_on(folder: Folder) -> None:
    asleep = threading.Event()

    def resolve(host: str, port: int) -> list[str]:
        asleep.wait(60)
        return []

    policy = replace(ONCE, connect_seconds=0.2)
    with (
        Fetcher(policy, resolver=resolve, connector=Recorder().connect) as fetcher,
        pytest.raises(Unavailable) as caught,
    ):
        fetcher.download("http://good.example/x", folder, "x")
    asleep.set()
    assert caught.value.code == "dns.unavailable"


def test_the_system_resolver_tells_a_wrong_name_from_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_name(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    def silent(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", no_name)
    with pytest.raises(BadInput):
        system_resolver("nowhere.example", 80)
    monkeypatch.setattr(socket, "getaddrinfo", silent)
    with pytest.raises(Unavailable):
        system_resolver("nowhere.example", 80)
