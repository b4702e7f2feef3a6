# tests/page/browser.py: the page in a headless Chromium, and what a user does with it.
import os

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from running_daemon import until

DESK = (1360, 900)
PHONE = (360, 740)


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en"):
            options.add_argument(argument)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")  # Chromium's sandbox refuses to run as root
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.resize(*DESK)

    def close(self):
        self.driver.quit()

    def open(self, url):
        self.driver.get(url)

    def ready(self, url):
        """The page, when it shows what the daemon has."""
        self.open(url)
        until("the page is ready", lambda: self.state() == "ready" and self.all("#cards article"))

    # --- what is there

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """The text as it is in the document, seen or not."""
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)", selector)

    def seen(self, selector):
        return any(each.is_displayed() for each in self.all(selector))

    def state(self):
        return self.run("return document.getElementById('state')?.dataset.state")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def module(self, path, script):
        """What `script` returns, which sees the module as `it`."""
        done = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; import(arguments[0]).then(async (it) => { " + script + " }).then("
            "(value) => done({value}), (why) => done({error: String(why.stack ?? why)}))", path)
        if "error" in done:
            raise AssertionError(done["error"])
        return done.get("value")

    def complaints(self):
        """What the browser itself found wrong: scripts that failed, what the policy refused."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE" and "Failed to load resource" not in entry["message"]]

    # --- what a user does

    def click(self, selector):
        until(f"{selector} can be clicked", lambda: self.seen(selector))
        self.run("arguments[0].scrollIntoView({block: 'center'})", self.one(selector))
        self.one(selector).click()

    def write(self, selector, text):
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self):
        return self.run("const at = document.activeElement; return at.id || at.getAttribute('aria-label') || at.className || at.tagName")

    def tab_to(self, wanted, most=60, back=False):
        """Presses Tab until the focus is there; fails if it never comes."""
        for _ in range(most):
            if self.focused() == wanted:
                return
            if back:
                webdriver.ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
            else:
                self.press(Keys.TAB)
        raise AssertionError(f"Tab does not lead to {wanted}; it ends at {self.focused()}")

    def set_options(self, **options):
        self.run("document.querySelector('.options').open = true")
        for name, value in options.items():
            self.write("#" + name.replace("_", "-"), str(value))

    def ask(self, text):
        self.write("#prompt", text)
        self.click("#send")

    def lend(self, device, mib, owner, minutes=30):
        self.click(f"#cards article:nth-of-type({device + 1}) [data-do=lend]")
        self.write("#lend-mib", str(mib))
        self.write("#lend-owner", owner)
        self.write("#lend-minutes", str(minutes))
        self.click("#lend-submit")

    # --- how it is shown

    def resize(self, width, height, mobile=False, scale=1):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile)

    def prefer(self, **features):
        self.cdp("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-" + name.replace("_", "-"), "value": value} for name, value in features.items()])

    def cdp(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def save(self, name):
        """A picture of it, if somebody wants to look: PAGE_PICTURES names the folder."""
        folder = os.environ.get("PAGE_PICTURES")
        if folder:
            self.driver.save_screenshot(os.path.join(folder, name + ".png"))
