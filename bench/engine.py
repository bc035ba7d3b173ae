"""Everything about the engine's speed, one subject after the other; each is also a benchmark by itself.

    python -m bench.engine [--quick | --long] [--json FILE] [--write]

Ours runs with everything on: fsync at every commit, tokens, one event per move. Peers run at their best setting, in
the same run, in turns. Ratios count, absolute times do not. Exit 1 when a row falls short of its target; `--write`
also puts the table and the picture into docs/why.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench import draining, growing, picture, recording, starting, submitting, waking
from bench.rounds import Options, Row, main

SUBJECTS = (submitting, draining, waking, growing, recording, starting)
DOCS = Path(__file__).resolve().parents[1] / "docs" / "why"


def measure(options: Options) -> Sequence[Row]:
    rows: list[Row] = []
    for subject in SUBJECTS:
        print(f"# {(subject.__doc__ or '').splitlines()[0]}", flush=True)
        found = subject.measure(options)
        print("\n".join(map(str, found)), flush=True)
        rows += found
    if options.write:
        picture.write(rows, DOCS)
    return rows


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
