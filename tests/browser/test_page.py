"""The page of `modelplane ui` in a real Chromium: its looks, its accessibility, its keyboard, and hostile text.

The screenshots of the documents are written to the folder that SCREENSHOTS names (`make ui`).
"""

import copy
import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from function.cli.page_server import Page, read_page, serve
from tests.browser.worlds import NOW, normalize, read_hundred, read_three
from tools.browser import Tab, axe_core, browse

pytestmark = pytest.mark.browser
VIEWS = ("fleet", "deployments", "services")
WIDTHS = (1280, 390)
Show = Callable[[dict[str, Any]], Page]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """The snapshots by their number of environments."""
    folder = tmp_path_factory.mktemp("fleet")
    return {3: read_three(folder), 100: read_hundred(folder)}


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Page, str]]:
    """A page and its URL."""
    page = Page(read_page())
    with serve(page, 0) as url:
        yield page, url


@pytest.fixture(scope="module")
def started() -> Iterator[Tab]:
    """A browser whose clock stands still."""
    with browse() as tab:
        moment = int(datetime.fromisoformat(NOW).timestamp() * 1000)
        tab.call("Page.addScriptToEvaluateOnNewDocument", source=f"Date.now = () => {moment};")
        tab.call("Emulation.setTimezoneOverride", timezoneId="UTC")
        tab.call("Emulation.setLocaleOverride", locale="en-GB")
        yield tab


@pytest.fixture
def tab(started: Tab) -> Iterator[Tab]:
    """The browser, of which no script complains until the end of the test."""
    started.look(1280)
    started.errors.clear()
    yield started
    assert started.errors == []


@pytest.fixture
def show(tab: Tab, served: tuple[Page, str]) -> Show:
    """Return what opens the page with a snapshot."""
    page, url = served

    def open_page(snapshot: dict[str, Any]) -> Page:
        publish(page, snapshot)
        tab.call("Page.navigate", url="about:blank")
        tab.open(url)
        tab.wait("document.querySelector('#heading')")
        return page

    return open_page


def publish(page: Page, snapshot: dict[str, Any]) -> None:
    page.publish(snapshot)
    page.read_at = datetime.fromisoformat(NOW)


def go_to(tab: Tab, view: str) -> None:
    tab.run(f"location.hash = '{view}'")
    tab.wait(f"document.title.toLowerCase().startsWith('{view}')")


def open_all(tab: Tab) -> None:
    tab.run("for (const each of document.querySelectorAll('details')) each.open = true; null")


@pytest.mark.parametrize("number", [3, 100])
def test_is_accessible_and_fits_every_width(
    number: int, tab: Tab, show: Show, worlds: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    show(worlds[number])
    tab.run(f"{axe_core()}; null")
    for view in VIEWS:
        go_to(tab, view)
        for width in WIDTHS:
            for dark in (False, True):
                tab.look(width, dark=dark)
                if view == "deployments" and number == 3:
                    tab.run("document.querySelectorAll('details')[1].open = true; null")
                if view == "fleet" or number == 3:
                    tab.screenshot(folder / f"ui-{view}-{number}-{width}-{'dark' if dark else 'light'}.webp")
                if number == 3:
                    open_all(tab)
                assert tab.run("document.documentElement.scrollWidth") <= width, (view, width)
                found = tab.run("axe.run().then((done) => done.violations.map((each) => [each.id, each.impact]))")
                assert found == [], (view, width, dark)
                tab.run("for (const each of document.querySelectorAll('details')) each.open = false; null")


def text_of(tab: Tab, selector: str) -> str:
    return str(tab.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))


def test_shows_what_the_data_says(tab: Tab, show: Show, worlds: dict[int, dict[str, Any]]) -> None:
    snapshot = worlds[3]
    show(snapshot)
    fleet = text_of(tab, "#view")
    for environment in snapshot["environments"]:
        for pool in environment["pools"]:
            gpus = pool["gpus"]
            assert f"{gpus['inUse']} of {gpus['total']} GPUs in use, {gpus['free']} free" in fleet
            assert f"largest replica: {pool['largestReplica']}" in fleet
            labels = tab.run("[...document.querySelectorAll('.bar')].map((each) => each.getAttribute('aria-label'))")
            parts = ", ".join(
                " ".join(filter(None, (str(each["gpus"]), each["namespace"], each["state"])))
                for each in pool["segments"]
            )
            assert f"{gpus['total']} GPUs: {parts}" in labels
    assert "repair on Friday" in fleet
    go_to(tab, "deployments")
    open_all(tab)
    shown = text_of(tab, "#view")
    for deployment in snapshot["deployments"]:
        assert f"{deployment['namespace']}/{deployment['name']}" in shown
        for message in (*deployment["waysOut"], *(c["message"].split("\n")[0] for c in deployment["conditions"])):
            assert message in shown
    assert "has downloaded 412Gi of 1050Gi for 8m" in shown
    go_to(tab, "services")
    shown = text_of(tab, "#view")
    for endpoint in snapshot["services"][0]["endpoints"]:
        assert f"{endpoint['share']} of the requests" in shown


def test_bars_are_as_wide_as_the_numbers(tab: Tab, show: Show, worlds: dict[int, dict[str, Any]]) -> None:
    show(worlds[3])
    widths = "[...each.children].map((part) => part.getBoundingClientRect().width)"
    bars = tab.run(f"[...document.querySelectorAll('.bar')].map((each) => {widths})")
    pools = [pool for each in worlds[3]["environments"] for pool in each["pools"]]
    for shown, pool in zip(bars, pools, strict=True):
        for width, segment in zip(shown, pool["segments"], strict=True):
            assert width / sum(shown) == pytest.approx(segment["gpus"] / pool["gpus"]["total"], abs=0.02)


def test_works_with_the_keyboard(tab: Tab, show: Show, worlds: dict[int, dict[str, Any]]) -> None:
    page = show(worlds[3])
    tab.press("Tab")
    assert text_of(tab, ":focus") == "Skip to the content"
    tab.press("Enter")
    tab.wait("document.activeElement.id === 'content'")
    tab.run("document.querySelector('nav a').focus()")
    tab.press("Tab")
    assert text_of(tab, ":focus") == "Deployments"
    assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.press("Enter")
    tab.wait("document.querySelector('#heading').textContent === 'Deployments'")
    assert text_of(tab, "nav a[aria-current=page]") == "Deployments"
    for _ in range(4):  # Services, the filter, the box, the first deployment
        tab.press("Tab")
    assert tab.run("document.activeElement.tagName") == "SUMMARY"
    first = text_of(tab, ":focus h3")
    tab.press("Enter")
    tab.wait("document.activeElement.parentElement.open")
    # New data neither closes what is open nor moves the focus.
    changed = copy.deepcopy(worlds[3])
    changed["deployments"][-1]["model"] = "changed-model"
    publish(page, changed)
    tab.wait("document.querySelector('#view').innerText.includes('changed-model')")
    assert text_of(tab, ":focus h3") == first
    assert tab.run("document.activeElement.parentElement.open")


def test_filters_and_shows_what_needs_attention(tab: Tab, show: Show, worlds: dict[int, dict[str, Any]]) -> None:
    show(worlds[100])
    assert text_of(tab, "#count") == "100 environments"
    type_into = "const f = document.querySelector('#filter'); f.value = %s; f.dispatchEvent(new Event('input')); null"
    tab.run(f"{{ {type_into % json.dumps('SITE-007')} }}")
    assert text_of(tab, "#count") == "1 of 100 environments"
    tab.run(f"{{ {type_into % json.dumps('nothing-like-it')} }}")
    assert "No environment matches" in text_of(tab, "#view")
    tab.run(f"{{ {type_into % json.dumps('')} }}")
    tab.run("document.querySelector('#attention').click()")
    # Every seventeenth of the hundred is cordoned.
    assert text_of(tab, "#count") == "6 of 100 environments"
    go_to(tab, "deployments")
    refused = sum(not each["placed"] for each in worlds[100]["deployments"])
    assert refused
    assert text_of(tab, "#count").startswith(f"{refused} of 90")
    tab.run("document.querySelector('#attention').click()")


HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\" onclick=\"x"


def poison(value: object) -> object:
    """Return data with hostile text in place of every text that a state or a style does not come from."""
    if isinstance(value, dict):
        fixed = ("state", "status", "since", "created", "completed", "share", "ready")
        return {key: each if key in fixed else poison(each) for key, each in value.items()}
    if isinstance(value, list):
        return [poison(each) for each in value]
    return HOSTILE + value if isinstance(value, str) else value


def test_shows_hostile_text_as_text(tab: Tab, show: Show, worlds: dict[int, dict[str, Any]]) -> None:
    poisoned = {key: value if key == "states" else poison(value) for key, value in worlds[3].items()}
    show(poisoned)
    for view in VIEWS:
        go_to(tab, view)
        open_all(tab)
        assert tab.run("document.querySelectorAll('img, #view script, [onclick], [onerror]').length") == 0
        assert "<img src=x" in text_of(tab, "#view")
    assert "owned" not in tab.run("document.title")


def test_hostile_states_break_nothing(tab: Tab, show: Show, worlds: dict[int, dict[str, Any]]) -> None:
    changed = copy.deepcopy(worlds[3])
    for each in changed["environments"]:
        for pool in each["pools"]:
            for part in (*pool["segments"], *pool["usedBy"]):
                part["state"] = 'x" onclick="y" style="z'
    show(changed)
    assert tab.run("document.querySelectorAll('#view [onclick]').length") == 0


def test_says_when_it_is_not_up_to_date(tab: Tab, show: Show, worlds: dict[int, dict[str, Any]]) -> None:
    page = show(worlds[3])
    assert tab.run("document.querySelector('#problem').hidden")
    page.publish_error("the control plane does not answer")
    tab.wait("!document.querySelector('#problem').hidden")
    assert text_of(tab, "#problem") == "This is not up to date: the control plane does not answer"
    assert text_of(tab, "#heading") == "Fleet"
    publish(page, worlds[3])
    tab.wait("document.querySelector('#problem').hidden")


def test_says_when_the_command_has_ended(tab: Tab, worlds: dict[int, dict[str, Any]]) -> None:
    page = Page(read_page())
    with serve(page, 0) as url:
        publish(page, worlds[3])
        tab.open(url)
        tab.wait("document.querySelector('#heading')")
    tab.wait("!document.querySelector('#problem').hidden")
    assert "modelplane ui does not answer" in text_of(tab, "#problem")
    # Chromium itself notes each refused connection.
    tab.errors[:] = [error for error in tab.errors if "ERR_CONNECTION" not in error]


def test_no_other_site_reads_the_data(tab: Tab, served: tuple[Page, str], worlds: dict[int, dict[str, Any]]) -> None:
    page, url = served
    publish(page, worlds[3])
    with serve(Page("<!doctype html><title>another site</title>"), 0) as other:
        tab.open(other.replace("127.0.0.1", "localhost"))
        # That page may connect only to itself; a page without a policy is a document of its own.
        tab.call("Page.setBypassCSP", enabled=True)
        tab.open(other.replace("127.0.0.1", "localhost"))
        read = f"fetch('{url}data.json').then((answer) => answer.text(), (error) => 'refused ' + error.message)"
        assert tab.run(read).startswith("refused ")
        frame = (
            "new Promise((done) => { const frame = document.createElement('iframe');"
            f" frame.src = '{url}'; frame.onload = () => done('loaded'); document.body.append(frame); }})"
            ".then(() => { try { return frames[0].document.title } catch (error) { return 'closed' } })"
        )
        assert tab.run(frame) in ("closed", "")
        tab.call("Page.setBypassCSP", enabled=False)
    tab.errors.clear()  # Chromium notes each of these attempts


def test_an_empty_control_plane_is_explained(tab: Tab, show: Show, worlds: dict[int, dict[str, Any]]) -> None:
    empty = {**worlds[3], "environments": [], "deployments": [], "services": []}
    show(normalize(empty))
    assert "There is no environment" in text_of(tab, "#view")
    go_to(tab, "services")
    assert "There is no service" in text_of(tab, "#view")
