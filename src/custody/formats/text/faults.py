"""A fault in a text, at its place."""

from __future__ import annotations

from custody.errors import BadInput


def fault(
    code: str, message: str, where: str, line: int | None = None, column: int | None = None, hint: str = ""
) -> BadInput:
    """Line and column count from one, as editors show them."""
    if line is None:
        return BadInput(message, code=code, where=where, hint=hint)
    place = f"{where}:{line}:{column}" if where else f"line {line}, column {column}"
    return BadInput(message, code=code, where=place, hint=hint, line=line, column=column)
