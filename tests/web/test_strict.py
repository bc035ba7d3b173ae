"""Every field of every request has one type: another is refused with the field's name, never made to fit, never a surprise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from custody.kernel.model.job import Filter
from web.house import House, open_house

WRONG: dict[str, tuple[Any, ...]] = {
    "string": (1, True, ["a"], {"a": "b"}, None),
    "integer": ("1", 1.0, 1.5, True, [1], None),
    "number": ("1", True, [1], None),
    "boolean": ("no", "true", 0, 1, [True], None),
    "object": ("{}", [], 1, None),
    "array": ("[]", {}, 1, None),
    "null": (),
}
RIGHT: dict[str, Any] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "object": {}, "array": []}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("strict"), filled=False, open_kinds=("parcel",)) as made:
        yield made


def described(house: House) -> dict[str, Any]:
    found: dict[str, Any] = house.client("admin").get("/api/v1/openapi.json").json()
    return found


def whole(spec: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: dict[str, Any] = spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def types(spec: dict[str, Any], schema: dict[str, Any]) -> set[str]:
    """All that a field may be."""
    schema = whole(spec, schema)
    return {each for one in schema["anyOf"] for each in types(spec, one)} if "anyOf" in schema else {schema["type"]}


def filled(spec: dict[str, Any], schema: dict[str, Any]) -> Any:
    """Something that fits."""
    schema = whole(spec, schema)
    if "anyOf" in schema:
        return filled(spec, schema["anyOf"][0])
    if schema["type"] != "object":
        return RIGHT[schema["type"]]
    return {name: filled(spec, schema["properties"][name]) for name in schema.get("required", ())}


def mistakes(spec: dict[str, Any], schema: dict[str, Any], where: str = "") -> Iterator[tuple[str, Any]]:
    """Bodies with one mistake each, and the field that it is in."""
    schema = whole(spec, schema)
    good = filled(spec, schema)
    yield f"{where}oddity", {**good, "oddity": 1}
    for name, field in schema["properties"].items():
        allowed = types(spec, field)
        wrong = {kind: WRONG[kind] for kind in allowed}
        for value in {repr(each): each for values in wrong.values() for each in values}.values():
            if not any(_is(value, kind) for kind in allowed):
                yield f"{where}{name}", {**good, name: value}
        for each in whole(spec, field).get("anyOf", [field]):
            inner = whole(spec, each)
            if inner["type"] == "object" and "properties" in inner:
                for below, body in mistakes(spec, inner, f"{where}{name}."):
                    yield below, {**good, name: body}
            if inner["type"] == "array":
                for kind in types(spec, inner["items"]):
                    for value in WRONG[kind]:
                        if not any(_is(value, other) for other in types(spec, inner["items"])):
                            yield f"{where}{name}", {**good, name: [value]}


def _is(value: Any, kind: str) -> bool:
    if kind == "number":
        return type(value) in (int, float)
    return (
        type(value)
        is {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None)}[kind]
    )


def test_a_value_of_another_type_is_refused_with_the_name_of_its_field(strict: House) -> None:
    spec, client, tried, routes = described(strict), strict.client("admin"), 0, set()
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is None:
                continue
            routes.add((method, path))
            address = path.replace("{job}/{action}", "1/hold").format(
                **{each["name"]: "1" for each in operation.get("parameters", ()) if each["in"] == "path"}
            )
            for where, wrong in mistakes(spec, body["schema"]):
                answer = client.request(method, address, json=wrong)
                told = answer.json()
                assert answer.status_code == 422, (method, path, wrong, answer.text)
                assert any(where in fault["where"] for fault in told["faults"]), (where, wrong, told)
                tried += 1
    assert tried > 250
    assert len(routes) >= 9
    assert strict.archive.store.queue.list() == [], "nothing was made of any of them"


def test_a_parameter_that_is_unknown_or_said_twice_is_refused_by_name(strict: House) -> None:
    spec, client = described(strict), strict.client("admin")
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            given = {each["name"]: each["in"] for each in operation.get("parameters", ())}
            address = path.format(**{name: "1" for name, where in given.items() if where == "path"})
            answer = client.request(method, f"{address}?oddity=1")
            assert (answer.status_code, answer.json()["where"]) == (400, "oddity"), (method, path, answer.text)
            for name in [name for name, where in given.items() if where == "query"]:
                answer = client.request(method, f"{address}?{name}=1&{name}=2")
                assert (answer.status_code, answer.json()["where"]) == (400, name), (method, path, answer.text)


@pytest.mark.parametrize("wrong", ["1.0", "%201", "1_0", "+1", "١", "true", "", "0x1"])
def test_a_number_in_an_address_is_digits(strict: House, wrong: str) -> None:
    client = strict.client("admin")
    for address in (
        f"/api/v1/jobs?limit={wrong}",
        f"/api/v1/jobs?before={wrong}",
        f"/api/v1/jobs/1/events?after={wrong}",
    ):
        answer = client.get(address)
        assert (answer.status_code, answer.json()["code"]) == (422, "request.fields"), (address, answer.text)


def test_a_flag_in_an_address_is_true_or_false(strict: House) -> None:
    for wrong in ("yes", "1", "on", "TRUE"):
        answer = strict.client("admin").delete(f"/api/v1/jobs/1?why=x&force={wrong}")
        assert (answer.status_code, "force" in answer.json()["where"]) == (422, True), answer.text


def test_a_notice_with_a_parameter_goes_no_short_way(strict: House) -> None:
    answer = strict.client("admin").post("/api/v1/archives/book/notify?oddity=1", json={"revision": 1})
    assert (answer.status_code, answer.json()["code"]) == (400, "request.unknown")


@pytest.mark.parametrize("address", ["/api/v1/jobs", "/jobs", "/api/v1/items", "/metrics"])
def test_who_says_twice_who_he_is_is_nobody(strict: House, address: str) -> None:
    good, other = (("Authorization", f"Bearer {strict.token(who)}") for who in ("admin", "metrics"))
    for both in ([good, other], [other, good], [good, good]):
        answer = strict.client().get(address, headers=both)
        assert answer.status_code == 400, answer.text
        assert "Authorization is said twice" in answer.text


def test_a_notice_with_two_tokens_goes_no_way_at_all(strict: House) -> None:
    both = [("Authorization", f"Bearer {strict.token(who)}") for who in ("hook", "admin")]
    answer = strict.client().post("/api/v1/archives/book/notify", json={"revision": 1}, headers=both)
    assert (answer.status_code, answer.json()["code"]) == (400, "request.repeated")


@pytest.mark.parametrize("name", ["profile", "title", "unknown", "file"])
def test_a_field_of_a_form_that_is_said_twice_is_refused_by_name(strict: House, name: str) -> None:
    profile = next(iter(strict.site.world.profiles))
    parts = [("profile", (None, profile)), ("file", ("a.txt", b"a")), ("title", (None, "one")), (name, (None, "two"))]
    parts += [(name, (None, "three"))] if name == "unknown" else []
    answer = strict.client("admin").post("/api/v1/batches/upload", files=parts)
    assert (answer.status_code, answer.json()["code"]) == (400, "request.repeated"), answer.text
    assert strict.archive.store.queue.list(Filter(kind="ingest/batch")) == []
