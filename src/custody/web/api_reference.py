"""The API as a page, from its own description and the table of who may use what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from custody.kernel.access.rights import holders
from custody.kernel.access.rules import Rule
from custody.web.access.gate import key_of

HEAD = """\
# The API

Made from the program itself by `python docs/make_reference.py`; a test fails when this page is out of date. The same
as OpenAPI is at `/api/v1/openapi.json`.

A program sends `Authorization: Bearer custody_…` (`custody token create`). Answers are JSON; errors are
`application/problem+json` with a `code`, `where` and `hint`. Lists go by pages: hand `next` back as `before` (or
`after` where a list is in its own order). A POST that makes something takes an `Idempotency-Key`. Every page of the
dashboard is there as `.json`, every list as `.csv`, too.

| status | means |
|---|---|
| 400 | it cannot be read |
| 401, 403 | no valid token; not the caller's to do |
| 404 | not there, or not the caller's to see |
| 409 | refused as things stand |
| 413, 408 | too large; too slow |
| 422 | it does not fit |
| 429 | too often: `Retry-After` says when |
| 503 | not available just now |
"""


def reference(schema: Mapping[str, Any], rules: Mapping[str, Rule]) -> str:
    parts, tag = [HEAD], ""
    for method, path, operation in sorted(_operations(schema), key=lambda each: (each[2]["tags"][0], each[1], each[0])):
        if operation["tags"][0] != tag:
            tag = operation["tags"][0]
            parts.append(f"\n## {tag[:1].upper()}{tag[1:]}\n")
        parts.append(_section(method, path, operation, schema, rules=rules))
    return "".join(parts)


def _operations(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, {"tags": ["others"], **operation}


def _section(
    method: str, path: str, operation: Mapping[str, Any], schema: Mapping[str, Any], rules: Mapping[str, Rule]
) -> str:
    text = f"\n### `{method} {path}`\n\n{operation.get('description') or operation.get('summary', '')}\n"
    text += f"\nFor: {_for(_rule(method, path, rules))}.\n"
    rows = [_parameter(each) for each in operation.get("parameters", ())]
    rows += [_parameter(each) for each in _body(operation, schema)]
    return text + (f"\n| | | |\n|---|---|---|\n{''.join(rows)}" if rows else "")


def _rule(method: str, path: str, rules: Mapping[str, Rule]) -> Rule | None:
    """Routes may say `{name:path}` where a description says `{name}`."""
    plain = {key.replace(":path}", "}").replace(":int}", "}"): rule for key, rule in rules.items()}
    return plain.get(key_of(method, path))


def _for(rule: Rule | None) -> str:
    if rule is None or rule.right is None:
        return "anyone"
    return ", ".join(sorted(holders(rule.right))) + (" of all collections" if rule.whole else "")


def _body(operation: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The fields of a body as if they were parameters."""
    for content in operation.get("requestBody", {}).get("content", {}).values():
        form = content.get("schema", {})
        name = str(form.get("$ref", "")).rpartition("/")[2]
        form = schema.get("components", {}).get("schemas", {}).get(name, form)
        for field, facts in form.get("properties", {}).items():
            yield {
                "name": field,
                "in": "body",
                "description": facts.get("description", ""),
                "schema": facts,
                "required": field in form.get("required", ()),
            }


def _parameter(given: Mapping[str, Any]) -> str:
    facts = [
        "needed" if given.get("required") else "",
        f"`{given['schema']['default']}`" if given.get("schema", {}).get("default") not in (None, "") else "",
    ]
    text = str(given.get("description", "")).replace("|", "\\|")
    return f"| `{given['name']}` ({given['in']}) | {text} | {', '.join(filter(None, facts))} |\n"
