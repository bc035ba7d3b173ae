"""A machine that reads the API's description and tries everything in it finds nothing that breaks."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it imports, not of ours
    import schemathesis

from web.house import House, open_house


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("tried")) as made:
        yield made


SENT = ("method", "url", "params", "json", "headers", "data", "files")


def operations(house: House) -> list[object]:
    schema = schemathesis.openapi.from_dict(house.client("admin").get("/api/v1/openapi.json").json())
    return [result.ok() for result in schema.get_all_operations()]


@pytest.mark.filterwarnings("ignore")
def test_no_request_that_the_description_allows_is_a_surprise(tried: House) -> None:
    client = tried.client("admin")
    statuses: Counter[int] = Counter()

    def attempt(case: object) -> None:
        kwargs = case.as_transport_kwargs(base_url="http://127.0.0.1")  # type: ignore[attr-defined]
        kwargs = {key: value for key, value in kwargs.items() if key in SENT}
        if kwargs.get("files"):  # the client cannot send numbers as parts of a form
            kwargs["files"] = [
                (name, (file, data if isinstance(data, bytes | str) else str(data)))
                for name, (file, data, *_) in kwargs["files"]
            ]
        headers = {name: str(value) for name, value in (kwargs.get("headers") or {}).items()}
        kwargs["headers"] = {k: v for k, v in headers.items() if k.lower() != "authorization" and v.isascii()}
        answer = client.request(**kwargs)
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, f"{kwargs} {answer.text}"
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"]

    found = [each for each in operations(tried) if "/stream" not in each.path]  # type: ignore[attr-defined]
    assert len(found) > 30
    for operation in found:
        from hypothesis import given

        test = given(case=operation.as_strategy())(attempt)  # type: ignore[attr-defined]
        settings(
            max_examples=8,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )(test)()
    assert statuses[200] > 20
    assert statuses[422] + statuses[404] + statuses[400] > 20
