"""The program of the robot `text`: plain text, HTML and XML of an object as plain text. It needs nothing of Custody.

The item comes as JSON on standard input; what was found goes out as lines of JSON (see
custody.robots.programs.program).
"""

import html.parser
import json
import os
import sys
from pathlib import Path

MOST = 16 << 20
QUIET = {"script", "style"}


class Words(html.parser.HTMLParser):
    """What a reader would see."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.quiet = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.quiet += tag in QUIET

    def handle_endtag(self, tag: str) -> None:
        self.quiet -= tag in QUIET and self.quiet > 0

    def handle_data(self, data: str) -> None:
        if not self.quiet:
            self.words += data.split()


def text_of(head: bytes) -> str | None:
    """The text in a file, or None when it is not one that this program reads."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    if text.lstrip()[:1] == "<":
        reader = Words()
        reader.feed(text)
        return " ".join(reader.words)
    return " ".join(text.split())


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def main() -> int:
    item = json.load(sys.stdin)
    folder = Path(item["detail"].get("folder", ""))
    try:
        inventory = json.loads((folder / "inventory.json").read_bytes())
    except OSError as error:
        print(f"{item['id']} has no OCFL object here: {error.strerror}", file=sys.stderr)
        return 75  # this machine does not see its storage; perhaps later, perhaps another one
    texts: list[str] = []
    passed_over = 0
    for digest, names in sorted(inventory["versions"][inventory["head"]]["state"].items(), key=lambda each: each[1]):
        path = folder / inventory["manifest"][digest][0]
        with path.open("rb") as file:
            found = text_of(file.read(MOST))
        texts += [found] if found else []
        passed_over += found is None
        if found is None and any(name.endswith((".txt", ".html", ".xml")) for name in names):
            say(warning="text.unreadable", reason=f"{names[0]} is no text, whatever its name says", file=names[0])
    whole = "\n".join(texts)
    Path(os.environ.get("CUSTODY_OUTPUT", "."), "text.txt").write_text(whole, encoding="utf-8")
    say(note={"words": len(whole.split()), "files": len(texts), "passed_over": passed_over})
    return 0


if __name__ == "__main__":
    sys.exit(main())
