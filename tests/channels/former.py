"""The rules that were before: one answer was believed. They stand here to show that the service is hostile enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from channels.hostile import Service, World
from custody.channels.crawl.trust import Ask, Span, cover
from custody.channels.snowflake import HIGHEST


@dataclass
class Former:
    """An archive that believes: a short page speaks for all that is older, and what a page lacks is gone."""

    held: dict[int, int] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    falsely: int = 0

    @property
    def upto(self) -> int:
        return self.spans[-1][1] if self.spans else 0

    def sync(self, service: Service) -> None:
        for _ in range(40):
            page = self._page(service, Ask(after=self.upto, limit=service.limit))
            if page is None:
                return
            self._keep(page)
            if page:
                self.spans = cover(self.spans, (0, max(page)))
            if len(page) < service.limit:
                break
        self._back(service)

    def _back(self, service: Service) -> None:
        before = self.upto + 1
        for _ in range(2):
            page = self._page(service, Ask(before=before, limit=service.limit))
            if not page:
                return
            first = 0 if len(page) < service.limit else min(page)
            self._keep(page)
            for one in [one for one in self.held if first <= one < before and one not in page]:
                del self.held[one]
                self.falsely += one in service.world.live
            before = min(page)

    def _page(self, service: Service, ask: Ask) -> dict[int, Any] | None:
        try:
            found = {int(one["id"]): one["version"] for one in service.answer(ask)}
        except (TypeError, KeyError, ValueError):
            return None
        return found if all(one <= HIGHEST for one in found) else None

    def _keep(self, page: dict[int, Any]) -> None:
        for one, version in page.items():
            self.held[one] = max(version, self.held.get(one, 0))


def unkept(world: World, held: dict[int, int]) -> int:
    return len(set(world.live) - set(held))
