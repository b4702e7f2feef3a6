#!/usr/bin/env python3
# tests/page/connection_test.py: a daemon that goes and comes back, and one that wants a key.
import re
import signal
import unittest

from browser import Browser
from running_daemon import RunningDaemon, until

KEY = "correct-horse-battery-staple"


class ConnectionTest(unittest.TestCase):
    def setUp(self):
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def test_it_says_when_the_daemon_is_gone_and_goes_on_when_it_is_back(self):
        daemon = RunningDaemon()
        self.addCleanup(daemon.close)
        self.browser.ready(daemon.url)
        self.browser.lend(0, 1, "survivor")
        until("the lease is shown", lambda: self.browser.texts("#leases .owner") == ["survivor"])
        daemon.end()
        until("the page says so", lambda: self.browser.state() == "lost", patience_s=10)
        self.assertRegex(self.browser.text("#notice-text"), r"^The daemon does not answer\. What is shown is how it was\. Trying again")
        self.assertEqual(self.browser.texts("#leases .owner"), ["survivor"])
        self.browser.ask("Call me")
        until("the chat says so", lambda: self.browser.seen("#chat-error"))
        self.assertEqual(self.browser.one("#prompt").get_attribute("value"), "Call me")
        daemon.start()
        until("the page is ready again", lambda: self.browser.state() == "ready", patience_s=15)
        self.assertFalse(self.browser.seen("#notice"))
        until("the lease of before is shown", lambda: self.browser.texts("#leases .owner") == ["survivor"])
        daemon.release_all()
        until("events come again", lambda: self.browser.texts("#leases .owner") == [], patience_s=5)

    def test_try_now_does_not_wait(self):
        daemon = RunningDaemon()
        self.addCleanup(daemon.close)
        self.browser.ready(daemon.url)
        daemon.end()
        until("it waits for long", lambda: re.search(r"again in (8|10) s", self.browser.text("#notice-text")), patience_s=40)
        daemon.start()
        if self.browser.state() == "lost":  # else it came back by itself meanwhile
            self.browser.click("#notice-retry")
        until("the page is ready again", lambda: self.browser.state() == "ready", patience_s=3)

    def test_an_answer_that_breaks_off_is_kept_and_said_to_be_broken(self):
        daemon = RunningDaemon()
        self.addCleanup(daemon.close)
        self.browser.ready(daemon.url)
        self.browser.set_options(max_tokens=1800, temperature=1, seed=3)
        with daemon.slowed():
            self.browser.ask("Call me")
            until("some of the answer is there", lambda: len(self.browser.text(".turn.assistant .body")) > 10)
            daemon.end(signal.SIGKILL)
        until("the chat says so", lambda: self.browser.text("#chat-error").startswith("The answer broke off"), patience_s=10)
        self.assertGreater(len(self.browser.text(".turn.assistant .body")), 10)
        self.assertIn("broken off", self.browser.text(".turn.assistant .note"))
        self.assertTrue(self.browser.seen("#send"))

    def test_a_key_is_asked_for_and_kept_in_this_tab_alone(self):
        daemon = RunningDaemon(key=KEY)
        self.addCleanup(daemon.close)
        self.browser.open(daemon.url)
        until("the key is asked for", lambda: self.browser.seen("#key-dialog"))
        self.assertEqual(self.browser.all("#cards article"), [])
        self.assertFalse(self.browser.seen("#key-error"))
        self.browser.write("#key", "wrong")
        self.browser.press("\ue007")
        until("it is refused in the daemon's words", lambda: self.browser.text("#key-error") == "the key is not the one of this service")
        self.browser.press("\ue00c")  # Escape
        self.assertTrue(self.browser.seen("#key-dialog"))
        self.browser.write("#key", KEY)
        self.browser.press("\ue007")
        until("the page is ready", lambda: self.browser.state() == "ready" and self.browser.all("#cards article"))
        self.assertFalse(self.browser.seen("#key-dialog"))
        kept = self.browser.run("return {address: location.href, local: JSON.stringify(localStorage), cookie: document.cookie, session: JSON.stringify(sessionStorage),"
                                " page: document.documentElement.outerHTML, field: document.getElementById('key').value}")
        self.assertIn(KEY, kept.pop("session"))
        for where, text in kept.items():
            self.assertNotIn(KEY, text, where)
        self.browser.lend(0, 1, "with key")  # changes, and the events that tell of them
        until("the lease is shown", lambda: self.browser.texts("#leases .owner") == ["with key"])
        until("events come", lambda: any("with key" in each for each in self.browser.texts("#activity li")))
        self.browser.set_options(max_tokens=5, temperature=0)
        self.browser.ask("Call me")
        until("it answers", lambda: self.browser.text(".turn.assistant .note") != "")
        self.browser.driver.refresh()
        until("it is ready without asking again", lambda: self.browser.state() == "ready")
        self.browser.driver.switch_to.new_window("tab")
        self.browser.open(daemon.url)
        until("another tab is asked", lambda: self.browser.seen("#key-dialog"))
        self.browser.driver.switch_to.window(self.browser.driver.window_handles[0])
        self.browser.click("#forget-key")
        until("it is forgotten", lambda: self.browser.state() == "locked" and self.browser.seen("#key-dialog"))

    def test_tabs_that_nobody_looks_at_leave_connections_to_the_others(self):
        daemon = RunningDaemon()
        self.addCleanup(daemon.close)
        self.browser.ready(daemon.url)
        for _ in range(7):  # a browser opens six connections to one address
            self.browser.driver.switch_to.new_window("tab")
            self.browser.ready(daemon.url)
        daemon.ask("POST", "/v1/vram/leases", {"owner": "news", "gpu": 0, "mib": 1, "ttl_s": 60})
        until("events come in the newest", lambda: self.browser.texts("#leases .owner") == ["news"])
        self.browser.driver.switch_to.window(self.browser.driver.window_handles[0])
        until("and in the first when it is seen again", lambda: self.browser.texts("#leases .owner") == ["news"])

    def test_everything_but_the_page_itself_needs_the_key(self):
        daemon = RunningDaemon(key=KEY)
        self.addCleanup(daemon.close)
        self.browser.open(daemon.url)
        paths = ["/", "/page/page.css", "/page/main.js", "/page/limits.js",
                 "/v1/status", "/v1/cards", "/v1/experts", "/v1/vram", "/v1/vram/leases", "/v1/events"]
        status = "const asked = new XMLHttpRequest(); asked.open('GET', arguments[0], false); asked.send(); return asked.status"
        codes = [self.browser.run(status, path) for path in paths]
        self.assertEqual(codes, [200] * 4 + [401] * 6)


if __name__ == "__main__":
    unittest.main()
