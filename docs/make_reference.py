"""Writes docs/reference from the program: python docs/make_reference.py"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from custody.cli import command_tree as commands
from custody.kernel.stores import open_store
from custody.web import api_reference as api
from custody.web.app import Options, build_app

HERE = Path(__file__).parent / "reference"


def pages() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/custody.db") as store:
        app = build_app(store, Options(b"a secret of thirty-two bytes, no less"))
        sys.path.insert(0, str(HERE.parents[1] / "tests"))
        from authority import printing  # the rules that the program is compared with

        return {
            "cli.md": commands.reference(), "api.md": api.reference(app.openapi(), app.state.site.rules),
            printing.PAGE: printing.page(),
        }


def main() -> None:
    HERE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (HERE / name).write_text(text)


if __name__ == "__main__":
    main()
