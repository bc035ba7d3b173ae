"""The same data for programs: JSON as it is, CSV that a spreadsheet cannot be fooled with."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from starlette.responses import Response, StreamingResponse

Columns = Mapping[str, Callable[[Any], Any]]
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_CHUNK = 500


def plain(value: Any) -> Any:
    """Values as JSON has them. Most are plain already; a list of fifty jobs has two thousand of them."""
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    text = json.dumps(plain(value), ensure_ascii=False, default=str)
    return Response(text, status, media_type="application/json", headers=dict(headers or {}))


def as_csv(columns: Columns, rows: Iterable[Any], filename: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{filename}.csv"'}
    return StreamingResponse(_lines(columns, rows), media_type="text/csv; charset=utf-8", headers=headers)


def _lines(columns: Columns, rows: Iterable[Any]) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    for number, row in enumerate(rows, start=1):
        writer.writerow([_cell(get(row)) for get in columns.values()])
        if number % _CHUNK == 0:
            yield _emptied(out)
    yield _emptied(out)


def _emptied(out: io.StringIO) -> str:
    text = out.getvalue()
    out.seek(0)
    out.truncate()
    return text


def _cell(value: Any) -> str:
    """A title must not become a formula."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False, default=str)
    return f"'{text}" if text.startswith(_FORMULA) and isinstance(value, str) else text
