"""Draws what waits for what across revisions: as text, as DOT, and as SVG.

    rev-2:COMMIT    <-- rev-3:COMMIT
    rev-2:build-PDF <!= rev-3:build-PDF

Only the arrows that matter are drawn: one that follows from others is left out (a transitive reduction),
since every task waits for its commit and nobody wants to see that line twice. States, if given, become
colours; the picture does not decide them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from custody.workflows.definition.task import COMMIT
from custody.workflows.plan.plan import Known, Plan, Ref

WAITS, CANCELS = "<--", "<!="


@dataclass(frozen=True, slots=True)
class Arrow:
    """`to` waits for (or cancels) `on`."""

    on: Ref
    to: Ref
    kind: str = WAITS

    def __str__(self) -> str:
        return f"{self.on} {self.kind} {self.to}"


def arrows(plans: Sequence[Plan], parents: Mapping[int, Collection[int]]) -> list[Arrow]:
    """All that matter, in the order in which the revisions added them."""
    waits = [Arrow(edge.on, Ref(plan.revision, edge.task)) for plan in plans for edge in plan.edges]
    kept = set(reduced(waits))
    found = [arrow for arrow in waits if arrow in kept] + list(_cancels(plans, parents))
    order = {plan.revision: place for place, plan in enumerate(plans)}
    rank = {
        Ref(plan.revision, name): place
        for plan in plans
        for place, name in enumerate((COMMIT, *(task.name for task in plan.tasks)))
    }

    def place(arrow: Arrow) -> tuple[int, int, bool, int]:
        return order[arrow.to.revision], rank[arrow.to], arrow.on.task != COMMIT, arrow.on.revision

    return sorted(dict.fromkeys(found), key=place)


def _cancels(plans: Sequence[Plan], parents: Mapping[int, Collection[int]]) -> Iterator[Arrow]:
    """To the nearest older instance; those before it are superseded just the same."""
    for plan in plans:
        past = Known(plans, lambda revision: parents.get(revision, ()), plan.revision)
        for cancel in plan.cancels:
            to = Ref(plan.revision, cancel.task)
            for earlier in past.nearest(cancel.victim):
                yield Arrow(Ref(earlier, cancel.victim), to, CANCELS)
            if cancel.same_revision:
                yield Arrow(Ref(plan.revision, cancel.victim), to, CANCELS)


def reduced(waits: Iterable[Arrow]) -> list[Arrow]:
    """Without the arrows that follow from others. The graph has no cycles: `definition.read` refuses them."""
    waits = list(dict.fromkeys(waits))
    before: dict[Ref, list[Ref]] = {}
    for arrow in waits:
        before.setdefault(arrow.to, []).append(arrow.on)
    return [
        arrow
        for arrow in waits
        if not any(_leads(before, other, arrow.on) for other in before[arrow.to] if other != arrow.on)
    ]


def _leads(before: Mapping[Ref, Sequence[Ref]], start: Ref, goal: Ref) -> bool:
    """Does `start` wait for `goal`? Arrows never lead to newer revisions: the search stays between them."""
    seen: set[Ref] = set()
    ahead = [start]
    while ahead:
        ref = ahead.pop()
        if ref == goal:
            return True
        if ref not in seen and ref.revision >= goal.revision:
            seen.add(ref)
            ahead += before.get(ref, ())
    return False


def as_text(found: Sequence[Arrow]) -> str:
    width = max((len(str(arrow.on)) for arrow in found), default=0)
    return "".join(f"{arrow.on!s:<{width}} {arrow.kind} {arrow.to}\n" for arrow in found)


def as_dot(found: Sequence[Arrow]) -> str:
    """For Graphviz; an arrow points from what comes first to what comes after."""
    lines = ["digraph revisions {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    revisions: dict[int, list[Ref]] = {}
    for ref in _refs(found):
        revisions.setdefault(ref.revision, []).append(ref)
    for revision, refs in sorted(revisions.items()):
        names = " ".join(f"{_quoted(str(ref))} [label={_quoted(ref.task)}];" for ref in refs)
        lines.append(f'  subgraph "cluster_{revision}" {{ label="rev {revision}"; {names} }}')
    for arrow in found:
        style = ' [style=dashed, arrowhead=tee, label="cancels"]' if arrow.kind == CANCELS else ""
        ends = (arrow.to, arrow.on) if arrow.kind == CANCELS else (arrow.on, arrow.to)
        lines.append(f"  {_quoted(str(ends[0]))} -> {_quoted(str(ends[1]))}{style};")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _refs(found: Iterable[Arrow]) -> list[Ref]:
    return list(dict.fromkeys(ref for arrow in found for ref in (arrow.on, arrow.to)))


_STEP_X, _STEP_Y, _BOX_X, _BOX_Y, _TOP, _LEFT = 190, 52, 140, 30, 44, 28
_STYLE = (
    "text{font:12px sans-serif;fill:currentColor}rect{fill:none;stroke:currentColor;rx:6}"
    ".waits{stroke:currentColor;fill:none}.cancels{stroke:#b35900;fill:none;stroke-dasharray:5 3}"
    ".missing rect{stroke-dasharray:2 3;opacity:.6}"
    ".succeeded rect{stroke:#1a7f37;stroke-width:2}.failed rect{stroke:#b42318;stroke-width:3}"
    ".running rect{stroke:#0b5cad;stroke-width:3}.superseded rect{stroke:#b35900;stroke-dasharray:5 3}"
    ".skipped rect{opacity:.5}"
)


def as_svg(found: Sequence[Arrow], states: Mapping[Ref, str] | None = None, *, in_page: bool = False) -> str:
    """One column per revision, one row per task; a revision missing in between gets an empty column.

    In a page that has its own style sheet (and may allow no other) the picture brings none."""
    states = states or {}
    refs = list(dict.fromkeys((*_refs(found), *states)))
    revisions = sorted({ref.revision for ref in refs})
    columns = list(range(revisions[0], revisions[-1] + 1)) if _few_gaps(revisions) else revisions
    rows = list(dict.fromkeys((COMMIT, *(arrow.to.task for arrow in found), *(ref.task for ref in refs))))
    spots = {ref: _spot(columns.index(ref.revision), rows.index(ref.task)) for ref in refs}
    width, height = _LEFT * 2 + _STEP_X * len(columns), _TOP + _STEP_Y * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" aria-labelledby="picture-title"'
        f' aria-describedby="picture-about" viewBox="0 0 {width} {height}" width="{width}">',
        f'<title id="picture-title">{_title(revisions)}</title>',
        f'<desc id="picture-about">{escape(_about(found, refs, states))}</desc>',
        "" if in_page else f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7"'
        ' orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>',
    ]
    parts += [_column(revision, place, revision in revisions) for place, revision in enumerate(columns)]
    parts += [_line(arrow, spots) for arrow in found]
    parts += [_box(ref, spot, states.get(ref, "")) for ref, spot in spots.items()]
    return "\n".join([*(part for part in parts if part), "</svg>", ""])


def _title(revisions: Sequence[int]) -> str:
    return f"Revisions {revisions[0]} to {revisions[-1]}" if revisions else "No revisions"


def _about(found: Sequence[Arrow], refs: Sequence[Ref], states: Mapping[Ref, str]) -> str:
    """The picture in a sentence or two, for those who do not see it."""
    cancels = sum(arrow.kind == CANCELS for arrow in found)
    counts = Counter(states.get(ref, "planned") for ref in refs)
    how = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return (
        f"A column for each revision, a box for each of {len(refs)} tasks ({how or 'none'}); {len(found) - cancels}"
        f" arrows lead from a task to one that waits for it, {cancels} dashed ones to one that it cancels."
    )


def _few_gaps(revisions: Sequence[int]) -> bool:
    return bool(revisions) and revisions[-1] - revisions[0] < 2 * len(revisions) + 8


def _spot(column: int, row: int) -> tuple[int, int]:
    return _LEFT + column * _STEP_X, _TOP + row * _STEP_Y


def _column(revision: int, place: int, there: bool) -> str:
    x, _ = _spot(place, 0)
    if there:
        return f'<text x="{x}" y="24">rev {revision}</text>'
    y = _TOP
    box = f'<rect x="{x}" y="{y}" width="{_BOX_X}" height="{_BOX_Y}"/>'
    return f'<g class="missing"><text x="{x}" y="24">rev {revision} missing</text>{box}</g>'


def _line(arrow: Arrow, spots: Mapping[Ref, tuple[int, int]]) -> str:
    cancels = arrow.kind == CANCELS
    first, second = (arrow.to, arrow.on) if cancels else (arrow.on, arrow.to)
    (x1, y1), (x2, y2) = spots[first], spots[second]
    middle = _BOX_Y // 2
    if x1 == x2 and abs(y1 - y2) == _STEP_Y:
        path = f"M{x1 + 12} {y1 + _BOX_Y}V{y2}" if y1 < y2 else f"M{x1 + 12} {y1}V{y2 + _BOX_Y}"
    elif x1 == x2:  # around the boxes in between
        y1, y2 = y1 + middle, y2 + middle
        path = f"M{x1} {y1}C{x1 - 24} {y1} {x1 - 24} {y2} {x1} {y2}"
    elif y1 == y2 and abs(x1 - x2) > _STEP_X:  # below them
        start, end = (x1 + _BOX_X - 12, x2 + 12) if x1 < x2 else (x1 + 12, x2 + _BOX_X - 12)
        path = f"M{start} {y1 + _BOX_Y}C{start} {y1 + _BOX_Y + 24} {end} {y2 + _BOX_Y + 24} {end} {y2 + _BOX_Y}"
    else:
        start, end = (x1 + _BOX_X, x2) if x1 < x2 else (x1, x2 + _BOX_X)
        bend = 30 if start < end else -30
        beside = middle + 7 if cancels else middle  # there may be one each way
        y1, y2 = y1 + beside, y2 + beside
        path = f"M{start} {y1}C{start + bend} {y1} {end - bend} {y2} {end} {y2}"
    said = f"{first} {'cancels' if cancels else 'comes before'} {second}"
    kind = "cancels" if cancels else "waits"
    return f'<path class="{kind}" d="{path}" marker-end="url(#tip)"><title>{escape(said)}</title></path>'


def _box(ref: Ref, spot: tuple[int, int], state: str) -> str:
    x, y = spot
    name = ref.task if len(ref.task) <= 19 else ref.task[:18] + "…"
    says = escape(f"{ref}{': ' + state if state else ''}")
    return (
        f'<g class="{escape(state, quote=True)}"><title>{says}</title>'
        f'<rect x="{x}" y="{y}" width="{_BOX_X}" height="{_BOX_Y}"/>'
        f'<text x="{x + 10}" y="{y + 20}">{escape(name)}</text></g>'
    )
