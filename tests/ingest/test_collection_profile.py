"""The promises of collection profiles: right values, or every mistake with its key."""

from __future__ import annotations

import dataclasses

import pytest

from custody.errors import BadInput
from custody.ingest import profile as profiles
from custody.ingest.profile import Profile, parse_profile, read_profile

FULL = """
description = "Letters"
owner = "ark:/99999/j2rn30xp"
collections = ["ark:/99999/m5rn35s8"]
priority = 0

[identifier]
minter = "ezid"
naan = "13030"
shoulder = "m5"
ezid_url = "http://127.0.0.1:8080"
ezid_user = "archive"
ezid_password_file = "/etc/custody/ezid"

[storage]
node = "7777"

[notification]
addresses = ["letters@archive.example", "x@localhost"]
confirm = true

[callback]
url = "https://archive.example/hook"
secret_file = "/etc/custody/hook"

[limits]
object_size = "20 GiB"
file_size = "5 MB"
files = 10

[fetch]
schemes = ["http", "https"]
hosts = ["*.archive.example"]
ports = [80, 8443]
networks = ["10.0.0.0/8", "fd00::/8"]
"""


def test_a_profile_is_read_into_values(tmp_path):
    (tmp_path / "letters_content.toml").write_text(FULL)
    profile = read_profile(tmp_path / "letters_content.toml")
    assert (profile.name, profile.priority, profile.storage.node) == ("letters_content", 0, "7777")
    assert (profile.limits.object_size, profile.limits.file_size, profile.limits.files) == (
        20 << 30,
        5_000_000,
        10,
    )
    assert profile.notification.addresses == ("letters@archive.example", "x@localhost")
    assert profile.fetch.ports == (80, 8443)
    assert profile.identifier.template == "eedeeedk"
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.priority = 1


def test_an_empty_profile_is_the_defaults():
    assert parse_profile("", "demo") == Profile("demo")


MISTAKES = {
    "a misspelt key": ('descripton = "x"', "descripton: unknown key, did you mean description?"),
    "a misspelt key in a table": ('[fetch]\nhost = ["x"]', "fetch.host: unknown key, did you mean hosts?"),
    "the name is the file's": ('name = "x"', "name: unknown key"),
    "a number for text": ("owner = 7", "owner: must be text"),
    "text for a list": ('collections = "x"', "collections: must be a list"),
    "text for a flag": ('[notification]\nconfirm = "yes"', "notification.confirm: must be true or false"),
    "a value for a table": ("fetch = 3", "fetch: must be a table, [fetch]"),
    "a size that is none": ('[limits]\nfiles = "many"', "limits.files: must be a whole number"),
    "a negative size": ("[limits]\nfiles = -1", "limits.files: must be a whole number"),
    "a flag for a size": ("[limits]\nfiles = true", "limits.files: must be a whole number"),
    "an owner that is no ARK": ('owner = "me"', "owner: 'me' is not an ARK"),
    "a priority past 99": ("priority = 100", "priority: 100 is not between 0 and 99"),
    "no such minter": ('[identifier]\nminter = "x"', "identifier.minter: 'x' is not local or ezid"),
    "a shoulder that cannot be": ('[identifier]\nshoulder = "A B"', "identifier: 'A B' is not a shoulder"),
    "EZID without an account": (
        '[identifier]\nminter = "ezid"\nezid_url = "https://x.example"',
        "identifier.ezid_url: the minter ezid needs ezid_user and ezid_password_file",
    ),
    "an address that is none": (
        '[notification]\naddresses = ["a b"]',
        "notification.addresses: 'a b'",
    ),
    "a header in an address": ('[notification]\naddresses = ["a@b\\nBcc: c@d"]', "notification.addresses: "),
    "a callback without a secret": (
        '[callback]\nurl = "https://x.example"',
        "callback.secret_file: a",
    ),
    "a password in a URL": (
        '[callback]\nurl = "https://a:b@x.example"\nsecret_file = "s"',
        "callback.url: a user name or password in a URL is not allowed here",
    ),
    "a URL that is none": (
        '[storage]\nservice = "ftp://x"',
        "storage.service: 'ftp://x' is not an",
    ),
    "a scheme that is not fetched": (
        '[fetch]\nschemes = ["ftp"]',
        "fetch.schemes: 'ftp' is not http",
    ),
    "a network that is none": (
        '[fetch]\nnetworks = ["10.0.0.1/8"]',
        "fetch.networks: 10.0.0.1/8 has",
    ),
    "a port that is none": ("[fetch]\nports = [0]", "fetch.ports: 0 is not between"),
    "a host that is none": ('[fetch]\nhosts = ["*"]', "fetch.hosts: '*' is not of the form"),
    "no downloads at all": ("[limits]\ndownloads = 0", "limits.downloads: 0 is not between"),
}


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_with_file_and_key(tmp_path, text, message):
    path = tmp_path / "demo.toml"
    path.write_text(text)
    with pytest.raises(BadInput) as refused:
        read_profile(path)
    assert refused.value.message.startswith(message)
    assert refused.value.message.count(message) == 1, "told once"
    assert refused.value.where == str(path)
    assert str(path) in str(refused.value)


def test_every_mistake_is_told_at_once():
    with pytest.raises(BadInput) as refused:
        parse_profile('owner = 1\nxyz = 2\n[fetch]\nports = ["x"]', "demo")
    assert refused.value.message.count(";") == 2


@pytest.mark.proves("H1")
@pytest.mark.parametrize("text", ["owner = x", "a = 1\na = 2", "\x00"])
def test_what_is_not_toml_is_refused_with_its_place(text):
    with pytest.raises(BadInput) as refused:
        parse_profile(text, "demo", where="demo.toml")
    assert (refused.value.code, refused.value.where) == ("profile.toml", "demo.toml")
    assert "(at " in refused.value.message


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BadInput) as refused:
        read_profile(tmp_path / "none.toml")
    assert refused.value.code == "profile.file"


def test_the_example_in_the_documentation_is_a_profile():
    example = "\n".join(line[4:] for line in profiles.__doc__.splitlines() if line.startswith("    "))
    assert parse_profile(example, "letters").fetch.hosts == ("*.archive.example",)
