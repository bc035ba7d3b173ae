"""What a task prints is a stranger's: on an operator's terminal it is shown, never obeyed."""

from __future__ import annotations

import pytest

from custody.workflows.commands.tasks import for_terminal


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"plain\n\ttext\r\n", b"plain\n\ttext\n"),
        ("größer\n".encode(), "größer\n".encode()),
        (b"\x1b]0;renamed\x07", b"\\x1b]0;renamed\\x07"),
        (b"\x1b[2J\x1b[31mred", b"\\x1b[2J\\x1b[31mred"),
        ("\x9b31m".encode(), b"\\x9b31m"),
        (b"all is well\rnothing is", b"all is well\\x0dnothing is"),
        (b"a\x08b\x7f\x00", b"a\\x08b\\x7f\\x00"),
        (b"\xff", "\ufffd".encode()),
    ],
)
def test_what_would_command_a_terminal_is_only_shown(printed: bytes, shown: bytes) -> None:
    assert for_terminal(printed) == shown
