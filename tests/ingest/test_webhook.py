"""The promises of signed callbacks."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest

from custody.errors import BadInput, Refused
from custody.ingest.batch.webhook import body, sign, verify

OLD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
NOW = 1614265330


@pytest.mark.proves("H9")
def test_the_published_example_has_the_published_signature():
    headers = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", NOW, b'{"test": 2432232314}', [OLD])
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.proves("H9")
@pytest.mark.parametrize(
    ("signing", "knowing"), [([OLD], [OLD]), ([NEW, OLD], [OLD]), ([NEW, OLD], [NEW]), ([OLD], [NEW, OLD])]
)
def test_while_a_secret_is_replaced_either_is_believed(signing, knowing):
    headers = sign("msg-1", NOW, b"{}", signing)
    upper = {name.title(): value for name, value in headers.items()}
    assert verify(upper, b"{}", knowing, now=NOW + 299) == "msg-1"


HEADERS = sign("msg-1", NOW, b"{}", [OLD])
FORGERIES = {
    "another body": (HEADERS, b"{ }", [OLD], NOW, "webhook.signature"),
    "another id": (HEADERS | {"webhook-id": "msg-2"}, b"{}", [OLD], NOW, "webhook.signature"),
    "another time": (HEADERS | {"webhook-timestamp": str(NOW + 1)}, b"{}", [OLD], NOW, "webhook.signature"),
    "another secret": (HEADERS, b"{}", [NEW], NOW, "webhook.signature"),
    "another version": (
        HEADERS | {"webhook-signature": HEADERS["webhook-signature"].replace("v1", "v2")},
        b"{}",
        [OLD],
        NOW,
        "webhook.signature",
    ),
    "an old call": (HEADERS, b"{}", [OLD], NOW + 301, "webhook.time"),
    "a call from the future": (HEADERS, b"{}", [OLD], NOW - 301, "webhook.time"),
    "no time": (HEADERS | {"webhook-timestamp": "soon"}, b"{}", [OLD], NOW, "webhook.time"),
    "a time without end": (HEADERS | {"webhook-timestamp": "9" * 9999}, b"{}", [OLD], NOW, "webhook.time"),
    "no signature": ({"webhook-id": "x", "webhook-timestamp": "1"}, b"{}", [OLD], NOW, "webhook.header"),
    "nothing known": (HEADERS, b"{}", [], NOW, "webhook.signature"),
}


@pytest.mark.proves("H9")
@pytest.mark.parametrize(("headers", "text", "secrets", "now", "code"), FORGERIES.values(), ids=FORGERIES.keys())
def test_a_call_that_is_not_genuine_or_not_fresh_is_refused(headers, text, secrets, now, code):
    with pytest.raises(Refused) as refused:
        verify(headers, text, secrets, now=now)
    assert refused.value.code == code


@pytest.mark.proves("H9")
@pytest.mark.parametrize("secrets", [[], ["plain"], ["whsec_????"], ["whsec_YWJj"], [OLD[6:]]])
def test_a_secret_that_protects_nothing_is_refused(secrets):
    with pytest.raises(BadInput) as refused:
        sign("msg-1", NOW, b"{}", secrets)
    assert refused.value.code == "webhook.secret"
    assert not any(secret in str(refused.value) for secret in secrets)


@pytest.mark.proves("H9")
@pytest.mark.parametrize("message_id", ["", "a.b", "a\nb"])
def test_an_id_that_could_be_read_two_ways_is_refused(message_id):
    with pytest.raises(BadInput):
        sign(message_id, NOW, b"{}", [OLD])


def test_the_body_says_what_when_and_the_facts():
    text = body("job.completed", datetime(2024, 5, 31, 12, tzinfo=UTC), {"ark": "ark:/1/x", "title": "é"})
    assert json.loads(text) == {
        "type": "job.completed",
        "timestamp": "2024-05-31T12:00:00+00:00",
        "data": {"ark": "ark:/1/x", "title": "é"},
    }
    with pytest.raises(BadInput):
        body("x", datetime(2024, 5, 31), {})  # noqa: DTZ001
