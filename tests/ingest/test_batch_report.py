"""The promises of the depositor's report and of the mail that carries it."""

from __future__ import annotations

import csv
import email
import io
import json
from datetime import UTC, datetime
from email.policy import default as modern

import pytest
from aiosmtpd.controller import Controller
from hypothesis import given
from hypothesis import strategies as st

from custody.errors import BadInput, Refused, Unavailable
from custody.ingest.batch.mail import by_smtp, check_address, compose, to_outbox
from custody.ingest.batch.report import (
    COMPLETED,
    DELETED,
    FAILED,
    Batch,
    Outcome,
    Report,
    as_csv,
    as_json,
    as_text,
    delta,
    told,
    update_as_text,
)

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
BATCH = Batch("bid-1", "letters_content", "ann", NOON, "letters.checkm")
DONE = Outcome("jid-1", COMPLETED, 6, "a.zip", "A letter", ark="ark:/99999/fk4a", version=1, size=10)
GONE = Outcome("jid-2", FAILED, 7, "b.zip", code="download.404", reason="https://x.example/b.zip: not found")
AGAIN = Outcome("jid-3", FAILED, 9, "c.zip", code="download.404", reason="https://x.example/c.zip: not found")
BAD = Outcome("jid-4", FAILED, 8, "d.zip", code="digest.mismatch", reason="md5 is 0, expected 1")
TAKEN = Outcome("jid-5", DELETED, 10, "e.zip")


def report(*outcomes: Outcome, **more) -> Report:
    return Report(BATCH, NOON, outcomes, **more)


def test_the_text_names_failures_by_cause_and_row():
    text = as_text(report(DONE, GONE, BAD, AGAIN, TAKEN, history_head="abc123", link="https://x.example/b"))
    assert text == (
        "Batch bid-1\n"
        "Collection letters_content, submitted by ann on 2024-05-31 12:00:00+00:00\n"
        "File letters.checkm\n"
        "\n"
        "1 of 5 deposited.\n"
        "\n"
        "Failed: download.404 (2)\n"
        "  row 7: b.zip: https://x.example/b.zip: not found\n"
        "  row 9: c.zip: https://x.example/c.zip: not found\n"
        "\n"
        "Failed: digest.mismatch (1)\n"
        "  row 8: d.zip: md5 is 0, expected 1\n"
        "\n"
        "Deleted by the archive (1)\n"
        "  row 10: e.zip: deleted\n"
        "\n"
        "Deposited (1)\n"
        "  row 6: a.zip: ark:/99999/fk4a version 1\n"
        "\n"
        "This batch on the web: https://x.example/b\n"
        "Head of the history: abc123\n"
    )


def test_a_batch_that_failed_as_a_whole_says_why():
    empty = report(failure="the manifest has no rows")
    assert "The batch failed: the manifest has no rows" in as_text(empty)
    assert not empty.ok


@pytest.mark.parametrize(
    ("outcomes", "ok"), [((DONE,), True), ((DONE, GONE), False), ((DONE, TAKEN), False), ((), False)]
)
def test_a_batch_is_well_only_if_every_job_is(outcomes, ok):
    assert report(*outcomes).ok == ok


def test_a_job_cannot_be_reported_twice():
    with pytest.raises(BadInput):
        report(DONE, DONE)


def test_depositors_text_cannot_break_out_of_its_line():
    evil = Outcome("jid-1", FAILED, 6, "x\r\nDeposited (99)\x1b[2J", code="a\nb", reason="\u202eevil")
    lines = as_text(report(evil)).splitlines()
    assert sum("Deposited" in line for line in lines) == 1
    assert all(line.isprintable() for line in lines)


def test_the_csv_has_a_line_for_each_job_and_no_formulas():
    evil = Outcome("jid-9", FAILED, None, '=HYPERLINK("x")', "@SUM(A1)", reason="-1+1", code="+x", ark="\t=1")
    records = list(csv.DictReader(io.StringIO(as_csv([DONE, evil]))))
    assert records[0]["row"] == "6"
    assert records[0]["ark"] == "ark:/99999/fk4a"
    assert [records[1][name][:2] for name in ("name", "title", "reason", "code", "ark")] == [
        "'=",
        "'@",
        "'-",
        "'+",
        "'\t",
    ]


def test_the_json_says_the_same():
    whole = json.loads(as_json(report(DONE, GONE)))
    assert whole["counts"] == {"completed": 1, "failed": 1, "deleted": 0}
    assert [job["row"] for job in whole["jobs"]] == [6, 7]
    assert (whole["ok"], whole["batch"]["submitted"]) == (False, "2024-05-31T12:00:00+00:00")


# -- update reports ----------------------------------------------------------------------------------


def test_an_update_report_is_the_difference_to_what_was_told():
    first = report(DONE, GONE, BAD, AGAIN)
    fixed = Outcome("jid-2", COMPLETED, 7, "b.zip", ark="ark:/99999/fk4b", version=1)
    dropped = Outcome("jid-3", DELETED, 9, "c.zip")
    now = report(DONE, fixed, BAD, dropped)
    change = delta(told(first), now)
    assert (change.newly_completed, change.newly_unresolved) == ((fixed,), (dropped,))
    assert (change.still_unresolved, change.told_before) == ((BAD,), (DONE,))

    text = update_as_text(change, now)
    assert "Newly deposited (1)\n  row 7: b.zip: ark:/99999/fk4b version 1\n" in text
    assert "Still unresolved (1)\n  row 8: d.zip: md5 is 0, expected 1\n" in text
    assert "Newly failed or deleted (1)" in text
    assert "1 were reported as deposited before." in text
    assert json.loads(as_json(now, change))["changes"]["newly_completed"] == ["jid-2"]


def test_when_nothing_changed_the_update_says_so():
    change = delta(told(report(DONE)), report(DONE))
    assert not change.changed
    assert "Nothing changed." in update_as_text(change, report(DONE))


states = st.sampled_from([COMPLETED, FAILED, DELETED])


@given(st.dictionaries(st.integers(0, 9), states), st.dictionaries(st.integers(0, 9), states))
def test_every_job_is_in_exactly_one_part_of_the_difference(before, after):
    now = report(*(Outcome(str(job), state) for job, state in after.items()))
    change = delta({str(job): state for job, state in before.items()}, now)
    parts = [change.newly_completed, change.newly_unresolved, change.still_unresolved, change.told_before]
    assert sorted(each.job for part in parts for each in part) == sorted(map(str, after))
    assert change.changed == any(before.get(job) != state for job, state in after.items())


# -- mail --------------------------------------------------------------------------------------------


def message():
    made = report(DONE, GONE)
    return compose(
        sender="archive@x.example",
        recipients=["ann@x.example", "bo@x.example"],
        subject="FAIL: batch bid-1",
        text=as_text(made),
        message_id="<bid-1.round-1@x.example>",
        date=made.made,
        attachments={"report.csv": as_csv(made.outcomes), "report.json": as_json(made)},
    )


def test_the_message_carries_the_report_and_is_marked_as_automatic():
    read = email.message_from_bytes(message().as_bytes(), policy=modern)
    assert read["Subject"] == "FAIL: batch bid-1"
    assert read["To"] == "ann@x.example, bo@x.example"
    assert read["Message-ID"] == "<bid-1.round-1@x.example>"
    assert read["Auto-Submitted"] == "auto-generated"
    assert read["Date"].datetime == NOON
    assert "row 7: b.zip" in read.get_body().get_content()
    attached = {part.get_filename(): part.get_content() for part in read.iter_attachments()}
    assert sorted(attached) == ["report.csv", "report.json"]
    assert attached["report.csv"].startswith("row,state,name")


def test_an_update_lists_only_what_changed_or_waits():
    change = delta({"jid-1": COMPLETED, "jid-2": FAILED}, report(DONE, GONE))
    assert [each.job for each in change.listed] == ["jid-2"]


BAD_MAIL = {
    "a header in the subject": {"subject": "x\r\nBcc: all@x.example"},
    "a header in an address": {"recipients": ["a@x.example\nBcc: b@x.example"]},
    "two addresses in one": {"recipients": ["a@x.example, b@x.example"]},
    "no recipient": {"recipients": []},
    "too many recipients": {"recipients": ["a@x.example"] * 51},
    "no message id": {"message_id": "bid-1"},
    "a message id with more": {"message_id": "<a@b>\nX: y"},
}


@pytest.mark.parametrize("wrong", BAD_MAIL.values(), ids=BAD_MAIL.keys())
def test_a_message_that_could_say_something_else_is_not_made(wrong):
    right = {
        "sender": "archive@x.example",
        "recipients": ["ann@x.example"],
        "subject": "s",
        "text": "t",
        "message_id": "<a@x.example>",
        "date": NOON,
    }
    compose(**right)
    with pytest.raises(BadInput):
        compose(**(right | wrong))


@pytest.mark.parametrize("address", ["", "a", "a@", "@b", "a b@c", "a@b c", "a@b\n", "é@b.example", "a@b..c"])
def test_what_is_no_mail_address_is_refused(address):
    with pytest.raises(BadInput):
        check_address(address)


def test_the_outbox_has_one_file_for_each_message_id(tmp_path):
    send = to_outbox(tmp_path / "outbox")
    send(message())
    (file,) = (tmp_path / "outbox").iterdir()
    before = file.stat()
    send(message())
    assert [each.stat().st_ino for each in (tmp_path / "outbox").iterdir()] == [before.st_ino]
    assert file.name == "bid-1.round-1@x.example.eml"
    assert email.message_from_bytes(file.read_bytes(), policy=modern)["Message-ID"] == "<bid-1.round-1@x.example>"


class Sink:
    """A mail server that answers as told."""

    def __init__(self) -> None:
        self.taken, self.rcpt, self.data = [], {}, "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        answer = self.rcpt.get(address, "250 OK")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server, session, envelope):
        if self.data.startswith("250"):
            self.taken.append(envelope)
        return self.data


class OnAnyPort(Controller):
    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@pytest.fixture
def sink():
    handler = Sink()
    controller = OnAnyPort(handler, hostname="127.0.0.1", port=0)
    controller.start()
    handler.port = controller.port
    yield handler
    controller.stop()


def test_a_message_reaches_the_mail_server(sink):
    by_smtp("127.0.0.1", sink.port)(message())
    (envelope,) = sink.taken
    assert (envelope.mail_from, envelope.rcpt_tos) == ("archive@x.example", ["ann@x.example", "bo@x.example"])
    assert email.message_from_bytes(envelope.content, policy=modern)["Auto-Submitted"] == "auto-generated"


BOTH = ("ann@x.example", "bo@x.example")
ANSWERS = {
    "a full mailbox": ({}, "452 later", Unavailable),
    "refused for good": ({}, "554 no", Refused),
    "nobody there": (dict.fromkeys(BOTH, "550 unknown"), "250 OK", Refused),
    "nobody there for now": (dict.fromkeys(BOTH, "450 later"), "250 OK", Unavailable),
    "one of two unknown": ({BOTH[0]: "550 unknown"}, "250 OK", Refused),
    "one of two later": ({BOTH[0]: "450 later"}, "250 OK", Refused),
}


@pytest.mark.parametrize(("rcpt", "data", "error"), ANSWERS.values(), ids=ANSWERS.keys())
def test_what_the_mail_server_says_decides_whether_to_try_again(sink, rcpt, data, error):
    sink.rcpt, sink.data = rcpt, data
    with pytest.raises(error):
        by_smtp("127.0.0.1", sink.port)(message())


def test_a_mail_server_that_is_not_there_is_worth_another_try(sink):
    with pytest.raises(Unavailable):
        by_smtp("127.0.0.1", 1, timeout=1)(message())


def test_a_password_is_never_sent_in_the_clear(sink):
    with pytest.raises(BadInput):
        by_smtp("127.0.0.1", sink.port, user="ann", password="secret")
    with pytest.raises(Refused):
        by_smtp("127.0.0.1", sink.port, user="ann", password="secret", starttls=True)(message())
    assert sink.taken == []
