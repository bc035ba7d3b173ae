"""The header of a checkm manifest: which profile it says to follow, and whether it says so rightly."""

from __future__ import annotations

import re

from custody.formats.checkm.form import KINDS, PREFIXES, REGISTRY, STORAGE, UNKNOWN, Fault, ManifestType
from custody.formats.checkm.row import SPLIT

_HEADER = re.compile(r"#%(?P<word>\w+)[\s|]*(?P<rest>.*)")


class Header:
    """The #% lines before the first row."""

    def __init__(self, kinds: tuple[ManifestType, ...]) -> None:
        self._kinds = kinds
        self._lines: list[tuple[int, int, str, str]] = []

    def take(self, number: int, text: str) -> None:
        found = _HEADER.match(text)
        if found and len(self._lines) < 100:  # a hundred header lines is nobody's manifest
            column = found.start("rest") + 1
            self._lines.append((number, column, found["word"].lower(), found["rest"].strip()))

    def settle(self, number: int, told: list[Fault]) -> ManifestType:
        """Which kind it is; what is wrong with the header is told. `number` is where the rows begin."""
        if not any(word.startswith("checkm_") for _, _, word, _ in self._lines):
            told.append(Fault(1, 1, "manifest.declaration", "#%checkm_0.7 is missing", warning=True))
        kind = self._profile(number, told)
        self._prefixes(told)
        self._fields(kind, told)
        return kind

    def _profile(self, number: int, told: list[Fault]) -> ManifestType:
        profiles = [(line, column, rest) for line, column, word, rest in self._lines if word == "profile"]
        if not profiles:
            hint = f"as in #%profile | {KINDS[0].url}"
            told.append(
                Fault(line=number, column=1, code="manifest.profile", message="#%profile is missing", hint=hint)
            )
            return UNKNOWN
        line, column, url = profiles[0]
        for kind in (*KINDS, STORAGE):
            if url in {kind.url, f"{REGISTRY}mrt/{kind.profile}"}:
                if kind not in self._kinds:
                    allowed = " or ".join(each.profile for each in self._kinds)
                    told.append(
                        Fault(
                            line=line,
                            column=12,
                            code="manifest.kind",
                            message=f"{kind.profile} has no place here",
                            hint=f"expected {allowed}",
                        )
                    )
                return kind
        told.append(
            Fault(
                line=line,
                column=column,
                code="manifest.profile",
                message=f"unknown profile {url!r}",
                hint=f"as in {self._kinds[0].url}",
            )
        )
        return UNKNOWN

    def _prefixes(self, told: list[Fault]) -> None:
        found = {}
        for line, _, word, rest in self._lines:
            if word == "prefix":
                name, _, url = rest.partition(":")
                found[name.strip()] = (line, url.strip(" |<>"))
        for name, url in PREFIXES.items():
            line, given = found.get(name, (1, ""))
            if given != url:
                message = f"the prefix {name} is not {url}" if given else f"no #%prefix line for {name}"
                told.append(
                    Fault(
                        line=line, column=1, code="manifest.prefix", message=message, hint="it is ignored", warning=True
                    )
                )

    def _fields(self, kind: ManifestType, told: list[Fault]) -> None:
        """Columns are read by their place; a field list that says otherwise means the rows are not as we
        would read them."""
        line, rest = next(((n, rest) for n, _, word, rest in self._lines if word in {"fields", "columns"}), (0, ""))
        if kind is UNKNOWN:
            return
        if not line:
            told.append(Fault(1, 1, "manifest.fields", "#%fields is missing", warning=True))
            return
        given = [name.rpartition(":")[2].lower() for name in SPLIT.split(rest)]
        expected = [name.rpartition(":")[2].lower() for name in kind.columns]
        order = " | ".join(kind.columns)
        if given[: len(expected)] != expected[: len(given)]:
            told.append(
                Fault(
                    line=line,
                    column=1,
                    code="manifest.fields",
                    message="the fields are not in this profile's order",
                    hint=f"#%fields | {order}",
                )
            )
        elif len(given) != len(expected):
            told.append(
                Fault(
                    line,
                    1,
                    "manifest.fields",
                    f"{len(given)} fields, this profile has {len(expected)}",
                    warning=True,
                )
            )
