"""The dashboard in a real browser: light and dark, with and without scripts, by keyboard; nothing leaves loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from custody.kernel.model.job import Filter, NewJob
from custody.web.server import Server
from web.house import BEGAN, CHANNEL, House, open_house
from web.test_pages import NAMES, addresses

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, str]]:
    """A filled house behind a real server, in demo mode."""
    with open_house(tmp_path_factory.mktemp("served"), demo=True) as house:
        server = Server(house.app).start()
        yield house, server.url
        server.stop()


class Watched:
    """A browser window that remembers every complaint and every address it asked for."""

    def __init__(self, context: BrowserContext) -> None:
        self.context, self.complaints, self.asked = context, list[str](), list[str]()
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: self._said(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        context.on("request", lambda request: self.asked.append(request.url))

    def _said(self, sort: str, text: str) -> None:
        if sort in ("error", "warning"):
            self.complaints.append(text)

    def is_clean(self, url: str) -> bool:
        assert self.complaints == []
        assert [asked for asked in self.asked if not asked.startswith(url + "/")] == []
        return True


def window(browser: Browser, **settings: Any) -> Watched:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, **settings)
    context.set_default_timeout(60_000)
    return Watched(context)


@pytest.fixture(scope="module")
def axe() -> Any:
    from axe_playwright_python.sync_playwright import Axe

    return Axe()


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def faults(axe: Any, page: Page, only: dict[str, Any] | None = None) -> list[str]:
    found = axe.run(page, options={"runOnly": only or {"type": "tag", "values": RULES}, "resultTypes": ["violations"]})
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found.response["violations"]]


def open_live(page: Page, address: str) -> None:
    """Open a page and wait until its stream is open; what happened since the page was made is told then."""
    page.goto(address)
    page.wait_for_selector("html[data-listening]")


COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}


@pytest.fixture(scope="module")
def window_of(browser: Browser) -> Iterator[Watched]:
    made = window(browser, reduced_motion="reduce")
    yield made
    made.context.close()


@pytest.mark.parametrize("name", NAMES)
def test_every_page_is_accessible_and_quiet_in_light_and_dark(
    served: tuple[House, str], window_of: Watched, axe: Any, name: str
) -> None:
    house, url = served
    page, (address, _) = window_of.page, addresses(house)[name]
    page.emulate_media(color_scheme="light")
    page.goto(url + address + (f"{'&' if '?' in address else '?'}limit=6" if name in LONG else ""), wait_until="load")
    assert faults(axe, page) == []
    light = page.evaluate(GROUND)
    page.emulate_media(color_scheme="dark")
    assert faults(axe, page, COLOURS) == []
    assert page.evaluate(GROUND) != light
    assert window_of.is_clean(url)


LONG = {"events", "jobs"}  # a few rows are as good as many
GROUND = "getComputedStyle(document.body).backgroundColor"


def test_pages_for_those_who_are_not_let_in_are_accessible_too(
    served: tuple[House, str], browser: Browser, axe: Any
) -> None:
    _, url = served
    made = window(browser)
    for path in ("/login", "/jobs/424242", "/nothing"):
        made.page.goto(url + path)
        assert faults(axe, made.page) == []
    made.context.close()


def test_the_picture_of_an_archive_is_drawn_without_scripts_in_light_and_dark(
    served: tuple[House, str], browser: Browser
) -> None:
    """Its colours come from the page's own sheet, and change with it; every arrow is there to be seen."""
    _, url = served
    made = window(browser, java_script_enabled=False)
    made.page.goto(f"{url}/archives/book")
    picture = made.page.get_by_role("img", name="Revisions 1 to 2")
    seen = {}
    for scheme in ("light", "dark"):
        made.page.emulate_media(color_scheme=scheme)
        line = picture.locator("path.waits").first
        seen[scheme] = [
            line.evaluate("path => getComputedStyle(path).stroke"),
            picture.locator("text").first.evaluate("text => getComputedStyle(text).fill"),
        ]
    assert "none" not in seen["light"] + seen["dark"]
    assert all(light != dark for light, dark in zip(seen["light"], seen["dark"], strict=True))
    assert picture.locator("path.waits").count() >= 4
    assert all(
        box is not None and box["width"] + box["height"] > 10
        for box in (line.bounding_box() for line in picture.locator("path.waits").all())
    )
    assert made.is_clean(url)
    made.context.close()


def test_everything_works_without_scripts(served: tuple[House, str], browser: Browser) -> None:
    house, url = served
    made = window(browser, java_script_enabled=False)
    page = made.page
    for name in NAMES:
        answer = page.goto(url + addresses(house)[name][0])
        assert answer is not None
        assert answer.ok
        assert page.locator("h1").count() == 1
    job = house.archive.store.queue.submit_one(NewJob("parcel", {"title": "No scripts"})).id
    page.goto(f"{url}/jobs/{job}")
    page.locator("#act-hold summary").click()
    page.locator("#why-hold").fill("because")
    page.locator("#act-hold button.primary").click()
    assert f"Job {job} is held." in page.locator("#said").inner_text()
    assert house.archive.store.queue.get(job).state == "held"
    page.locator("form[action='/theme'] button").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.goto(f"{url}/jobs?kind=parcel")
    page.locator("#f-state").fill("held")
    page.get_by_role("button", name="Filter").click()
    assert "state=held" in page.url
    assert page.get_by_role("link", name=str(job), exact=True).count() == 1
    assert made.is_clean(url)
    made.context.close()


def test_a_walk_by_keyboard(served: tuple[House, str], browser: Browser) -> None:
    house, url = served
    made = window(browser)
    page = made.page
    page.goto(url + "/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url("**/batches")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == str(house.papers)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/batches/{house.papers}")
    page.keyboard.press("?")
    assert page.locator("#help").get_attribute("open") is not None
    page.keyboard.press("Escape")
    assert page.locator("#help").get_attribute("open") is None
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("loc1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=loc1")
    assert page.get_by_role("link", name="Field notebook").count() == 1
    failed = next(job for job in house.archive.jobs(house.papers) if job.ended == "failed").id
    page.goto(f"{url}/jobs/{failed}")
    page.keyboard.press("w")
    assert page.evaluate("document.activeElement.id") == "why"
    page.keyboard.press("r")
    assert page.evaluate("document.activeElement.id") == "why-resume"
    assert made.is_clean(url)
    made.context.close()


def test_focus_is_always_seen_and_never_behind_the_header(served: tuple[House, str], browser: Browser) -> None:
    _, url = served
    made = window(browser)
    page = made.page
    page.goto(url + "/jobs")
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => { const here = document.activeElement, box = here.getBoundingClientRect(),
            top = document.querySelector('.top').getBoundingClientRect().bottom, style = getComputedStyle(here);
            return {tag: here.outerHTML.slice(0, 80), hidden: !here.closest('.top, .skip') && box.bottom <= top,
            ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2}; }"""
        )
        seen.add(found["tag"])
        if found["tag"].startswith("<body"):
            break
        assert found["ring"], found
        assert not found["hidden"], found
    assert len(seen) > 20
    made.context.close()


def test_news_arrives_by_itself_and_leaves_the_focus_where_it_is(served: tuple[House, str], browser: Browser) -> None:
    house, url = served
    made = window(browser)
    page = made.page
    open_live(page, f"{url}/")
    page.locator("#station-pending a").focus()
    house.archive.store.queue.hold("lane", "live", "ada", "to be seen at once")
    page.wait_for_selector("text=to be seen at once")
    assert page.evaluate("document.activeElement.closest('li').id") == "station-pending"
    assert made.is_clean(url)
    made.context.close()


def test_what_happens_between_a_page_and_its_stream_is_told_when_it_opens(
    served: tuple[House, str], browser: Browser
) -> None:
    house, url = served
    made = window(browser)

    def late(route: Route) -> None:
        house.archive.store.queue.hold("lane", "late", "ada", "between page and stream")
        route.continue_()

    made.page.route("**/stream*", late)
    made.page.goto(f"{url}/")
    made.page.wait_for_selector("text=between page and stream")
    assert made.is_clean(url)
    made.context.close()


def test_what_is_being_read_does_not_move_and_a_pause_is_kept(served: tuple[House, str], browser: Browser) -> None:
    house, url = served
    made = window(browser)
    page = made.page
    open_live(page, f"{url}/jobs")
    page.keyboard.press("j")
    here = page.evaluate("document.activeElement.textContent")
    house.archive.store.queue.submit_one(NewJob("parcel", {"title": "Late arrival"}))
    page.wait_for_selector("#fresh:not([hidden])")
    assert page.evaluate("document.activeElement.textContent") == here
    assert page.get_by_text("Late arrival").count() == 0
    page.locator("#refresh").click()
    page.wait_for_selector("text=Late arrival")
    page.locator("#pause").click()
    page.reload()
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    assert made.is_clean(url)
    made.context.close()


def test_narrow_and_enlarged_pages_do_not_scroll_sideways(served: tuple[House, str], browser: Browser) -> None:
    house, url = served
    context = browser.new_context(viewport={"width": 320, "height": 640})
    page = context.new_page()
    failed = house.archive.store.queue.every(Filter(ended="failed"))  # their reasons hold long words: digests
    for address in (*(addresses(house)[name][0] for name in NAMES), *(f"/jobs/{job.id}" for job in failed)):
        page.goto(url + address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, address
        assert page.evaluate(CUT_OFF) == [], address
    context.close()


CUT_OFF = """[...document.querySelectorAll("table:not(.grid) td, table:not(.grid) tbody th")]
    .filter(cell => cell.getBoundingClientRect().right > innerWidth).map(cell => cell.textContent)"""


def test_a_thousand_rows_are_shown_quickly(served: tuple[House, str], browser: Browser) -> None:
    house, url = served
    house.archive.store.queue.submit([NewJob("many", {"title": f"Row {n}"}) for n in range(1000)])
    made = window(browser)
    measure = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
    made.page.goto(f"{url}/help", wait_until="load")
    plain = made.page.evaluate(measure)  # what a page costs on this machine, just now
    made.page.goto(f"{url}/jobs?kind=many&limit=500", wait_until="load")
    took = made.page.evaluate(measure)
    assert made.page.locator("tbody tr").count() == 500
    assert took < max(3000, 50 * plain)
    made.context.close()


def test_pictures_can_be_printed(served: tuple[House, str], browser: Browser, tmp_path: Path) -> None:
    house, url = served
    made = window(browser)
    made.page.emulate_media(media="print")
    made.page.goto(f"{url}/batches/{house.papers}")
    assert not made.page.locator(".top").is_visible()
    assert made.page.locator("table").first.is_visible()
    made.context.close()


ACTS = [
    # where, the action, a field and what to write into it, what is said then
    (f"/channels/{CHANNEL}", "sync", "", "", "will be synced"),
    (f"/channels/{CHANNEL}", "review", "#message-review", "629001099511627777", "will be looked at again"),
    (f"/channels/{CHANNEL}", "hold", "#why-hold", "they are moving", "is held"),
    (f"/channels/{CHANNEL}", "lift", "", "", "no longer held"),
    ("/robots/fixity", "hold", "#why-hold", "the tapes are away", "sleeps until"),
    ("/robots/fixity", "lift", "", "", "is awake"),
    ("/archives/book", "hold", "#why-hold", "the printer burns", "is held"),
    ("/archives/book", "lift", "", "", "no longer held"),
    ("/archives/book", "ask", "", "", "that nobody had told of"),
]


def test_every_action_of_the_applications_is_there_for_a_browser(served: tuple[House, str], browser: Browser) -> None:
    _, url = served
    made = window(browser, java_script_enabled=False)
    page = made.page
    for where, action, field, text, said in ACTS:
        page.goto(url + where)
        page.locator(f"#act-{action} > summary").click()
        if field:
            page.locator(field).fill(text)
        page.locator(f"#act-{action} form button.primary").click()
        assert said in page.locator("#said").inner_text(), (where, action)
    page.goto(f"{url}/robots/fixity")
    page.locator("#f-item").fill("book@1")
    page.get_by_role("button", name="Ask", exact=True).click()
    assert page.get_by_text("book@1 is not ready").count() == 1
    page.goto(f"{url}/channels/{CHANNEL}/messages/{BEGAN}")
    page.get_by_role("button", name="Look at it again").click()
    assert "will be looked at again" in page.locator("#said").inner_text()
    assert made.is_clean(url)
    made.context.close()


def test_a_verification_is_asked_for_and_its_result_arrives_by_itself(
    served: tuple[House, str], browser: Browser
) -> None:
    house, url = served
    made = window(browser)
    open_live(made.page, f"{url}/history")
    made.page.get_by_role("button", name="Verify everything now").click()
    made.page.wait_for_selector("html[data-listening]")
    house.work()
    made.page.wait_for_selector("text=The history is sound")
    assert made.is_clean(url)
    made.context.close()
