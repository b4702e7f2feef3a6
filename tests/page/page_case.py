# tests/page/page_case.py: a test of the page with a daemon and a browser of its own.
import unittest

from browser import Browser
from running_daemon import RunningDaemon


class PageCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = RunningDaemon()
        cls.addClassCleanup(cls.daemon.close)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
