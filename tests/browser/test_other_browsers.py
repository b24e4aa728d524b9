"""Firefox and WebKit draw what Chromium draws. The nightly workflow runs this with the system's browsers:

    BROWSERS=yes xvfb-run .venv/bin/pytest tests/browser/test_other_browsers.py

Each needs its driver on the PATH: geckodriver, and WebKitWebDriver from Debian's webkit2gtk-driver.
"""

import re
import shutil

import pytest
from conftest import close
from selenium import webdriver
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.firefox.service import Service as GeckoDriver
from selenium.webdriver.webkitgtk.service import Service as WebKitDriver

from browser.conftest import BUILT, REFUSED
from iclbook.explorers import EXPLORERS

pytestmark = pytest.mark.filterwarnings("ignore:setting remote_server_addr")  # by selenium itself
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
SHORT = {"softmax": "#softmax?steps=300"}  # in so few steps its loss falls at every step

# The first script of a page collects its errors: WebKit reports them in no other way.
COLLECT = """<script>window.complaints = []; console.error = (text) => complaints.push(text);
addEventListener("error", (event) => complaints.push(event.message || event.target.src), true);</script>"""

UNFOLD = """async () => {
  window.frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  while (!document.querySelector(".ex svg")) await frame();
  document.querySelectorAll(".ex-fold[aria-expanded=false]").forEach((each) => each.click());
  await frame(); }"""

# The CSV files of an explorer as it begins, and with each control at two places. The learning rate stays:
# above the edge of stability rounding errors grow, and each browser rounds exp and log in its own way.
EXPORTS = """async () => {
  const texts = [], all = (selector) => [...document.querySelectorAll(selector)];
  HTMLAnchorElement.prototype.click = function () { texts.push(fetch(this.href).then((it) => it.text())); };
  const download = all("button").find((each) => each.textContent === "Download CSV");
  const play = document.querySelector(".ex-time:not(:has(input)) button");  // it trains when it is asked to
  play?.click();
  while (play && !all(".ex-summary")[0].textContent.includes("Trained")) await frame();
  download.click();
  for (const share of [0.2, 0.7]) {
    for (const range of all(".ex-controls input[type=range]")) {
      if (range.labels[0].textContent.startsWith("learning rate")) continue;
      range.value = +range.min + share * (range.max - range.min);
      range.dispatchEvent(new Event("input"));
    }
    do { await frame(); await frame(); } while (all("[aria-busy=true]").length);
    download.click();
  }
  return Promise.all(texts); }"""


def firefox():
    options = webdriver.FirefoxOptions()
    options.add_argument("-headless")
    options.binary_location = shutil.which("firefox-esr") or shutil.which("firefox")
    return webdriver.Firefox(options, GeckoDriver(shutil.which("geckodriver")))


def webkit():
    return webdriver.WebKitGTK(service=WebKitDriver(shutil.which("WebKitWebDriver")))


@pytest.fixture(scope="module", params=[firefox, webkit])
def other(request):
    driver = request.param()
    driver.set_window_size(1280, 980)
    driver.set_script_timeout(120)
    driver.run = lambda function: driver.execute_script(f"return ({function})()")
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(site, tmp_path_factory):
    folder = shutil.copytree(site, tmp_path_factory.mktemp("pages"), dirs_exist_ok=True)
    for path in folder.glob("*.html"):
        path.write_text(path.read_text().replace("<head>", f"<head>{COLLECT}"))
    return folder.as_uri()


@pytest.mark.parametrize("name", sorted(EXPLORERS))
def test_another_browser_draws_what_chromium_draws(visit, pages, other, name):
    page = visit(f"{pages}/{name}.html{SHORT.get(name, '')}")
    other.get(page.url)
    page.evaluate(UNFOLD)
    other.run(UNFOLD)
    ours, theirs = page.evaluate(EXPORTS), other.run(EXPORTS)
    assert len(ours) == len(theirs) == 3 and len({*ours}) > 1
    for one, another in zip(ours, theirs, strict=True):
        assert NUMBER.sub("number", another) == NUMBER.sub("number", one)
        close(*([float(each) for each in NUMBER.findall(text)] for text in (another, one)))
    assert not other.execute_script("return complaints")


def test_bars_sliders_and_pictures_can_be_dragged(pages, other):
    other.get(f"{pages}/rank_one.html")
    other.run(UNFOLD)
    for selector, right, down, value in (
        (".ex-bar:last-child", 0, -30, ".ex-bar:last-child').ariaValueNow"),
        (".ex-rest input[type=range]", 40, 0, ".ex-rest input[type=range]').value"),
        (".ex-panels svg", -40, 0, ".ex-clock').textContent"),
    ):
        read = f"async () => {{ await frame(); await frame(); return document.querySelector('{value}; }}"
        part, before = other.find_element("css selector", selector), other.run(read)
        other.execute_script("arguments[0].scrollIntoView({ block: 'center' })", part)
        ActionChains(other).drag_and_drop_by_offset(part, right, down).perform()
        assert (dragged := other.run(read)) != before
        if "bar" in selector:  # it keeps the focus
            ActionChains(other).send_keys(Keys.ARROW_UP).perform()
            assert float(other.run(read)) > float(dragged) > float(before)
    assert not other.execute_script("return complaints")


def test_a_page_from_disk_works_and_asks_no_other_host(other):
    other.get((BUILT / "book" / "rank_one.html").as_uri())
    other.run(UNFOLD)
    left = "document.querySelectorAll('article .math:not(:has(mjx-container))').length"
    assert other.run(f"async () => {{ await MathJax.startup.promise; return {left}; }}") == 0
    assert other.run(REFUSED) == ["img-src", "script-src-elem"]
