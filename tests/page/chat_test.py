#!/usr/bin/env python3
# tests/page/chat_test.py: the chat, as somebody uses it.
import unittest

from page_case import PageCase
from running_daemon import until

QUESTION = "Call me"


class ChatTest(PageCase):
    def setUp(self):
        self.browser.ready(self.daemon.url)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def wait_for_end(self):
        until("the answer has ended", lambda: not self.browser.all(".turn.writing") and self.browser.seen("#send"))

    def test_an_answer_is_shown_as_the_daemon_gives_it(self):
        expected = self.daemon.answer_to(QUESTION, max_tokens=40, temperature=0.8, seed=7)
        self.browser.set_options(max_tokens=40, temperature=0.8, seed=7)
        self.browser.ask(QUESTION)
        self.wait_for_end()
        self.assertEqual(self.browser.texts(".turn.user .body"), [QUESTION])
        self.assertEqual(self.browser.texts(".turn.assistant .body"), [expected])
        self.assertRegex(self.browser.text(".turn.assistant .note"),
                         r"^\d+ tokens?, [\d.\u202f]+ a second, longest gap [\d.\u202f]+ ms, [\d.]+\u202f% of the experts in a cache")
        self.assertEqual(self.browser.one("#prompt").get_attribute("value"), "")

    def test_a_second_question_is_asked_with_what_was_said_before(self):
        self.browser.set_options(max_tokens=12, temperature=0, seed=1)
        self.browser.ask(QUESTION)
        self.wait_for_end()
        first = self.browser.texts(".turn.assistant .body")[0]
        self.browser.ask("And then?")
        self.wait_for_end()
        conversation = [("user", QUESTION), ("assistant", first), ("user", "And then?")]
        said = self.daemon.ask("POST", "/v1/chat/completions", {
            "messages": [{"role": role, "content": text} for role, text in conversation], "max_tokens": 12, "temperature": 0, "seed": 1})
        self.assertEqual(self.browser.texts(".turn.assistant .body")[1], said["choices"][0]["message"]["content"])

    def test_stop_ends_an_answer_in_its_middle_and_the_daemon_with_it(self):
        whole = self.daemon.answer_to(QUESTION, max_tokens=1800, temperature=1, seed=3)
        self.browser.set_options(max_tokens=1800, temperature=1, seed=3)
        with self.daemon.slowed():
            self.browser.ask(QUESTION)
            until("some of the answer is there", lambda: len(self.browser.text(".turn.assistant .body")) > 10)
            self.assertFalse(self.browser.seen("#send"))
            self.browser.click("#stop")
            self.wait_for_end()
        shown = self.browser.text(".turn.assistant .body")
        self.assertTrue(whole.startswith(shown) and 0 < len(shown) < len(whole), (len(shown), len(whole)))
        self.assertIn("stopped", self.browser.text(".turn.assistant .note"))
        until("the daemon has no session", lambda: self.daemon.ask("GET", "/v1/status")["sessions"] == 0, patience_s=5)
        self.browser.set_options(max_tokens=3)
        self.browser.ask("Go on")
        self.wait_for_end()
        self.assertEqual(len(self.browser.all(".turn.assistant")), 2)

    def test_a_refusal_is_shown_in_the_daemons_words_and_the_question_comes_back(self):
        question = "word " * 4000
        self.browser.run("document.getElementById('prompt').value = arguments[0]", question)
        self.browser.click("#send")
        until("the error is shown", lambda: self.browser.seen("#chat-error"))
        self.assertIn("2048", self.browser.text("#chat-error"))
        self.assertFalse(self.browser.seen("#chat-overfull"))  # a new chat would not help
        self.assertEqual(self.browser.all(".turn"), [])
        self.assertEqual(self.browser.one("#prompt").get_attribute("value").strip(), question.strip())

    def test_a_conversation_that_is_full_can_be_left_with_its_question(self):
        self.browser.set_options(max_tokens=8, temperature=0)
        self.browser.ask("word " * 800)
        self.wait_for_end()
        question = "word " * 1500
        self.browser.run("document.getElementById('prompt').value = arguments[0]", question)
        self.browser.click("#send")
        until("the error is shown", lambda: self.browser.seen("#chat-error"))
        self.browser.click("#chat-overfull")
        self.assertFalse(self.browser.seen("#chat-error") or self.browser.seen("#chat-overfull"))
        self.assertEqual(self.browser.one("#prompt").get_attribute("value").strip(), question.strip())
        self.browser.click("#send")
        self.wait_for_end()
        self.assertEqual(len(self.browser.all(".turn.assistant")), 1)

    def test_a_number_out_of_range_is_refused_by_name_and_nothing_is_sent(self):
        self.browser.set_options(temperature=-1)
        self.browser.ask(QUESTION)
        until("the error is shown", lambda: self.browser.text("#chat-error").startswith("Temperature"))
        self.assertEqual(self.browser.all(".turn"), [])

    def test_markup_in_a_question_stays_text(self):
        question = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>"
        self.browser.set_options(max_tokens=2)
        self.browser.ask(question)
        self.wait_for_end()
        self.assertEqual(self.browser.text(".turn.user .body"), question)
        self.assertEqual(self.browser.all("#transcript img, #transcript b"), [])
        self.assertNotIn("owned", self.browser.driver.title)

    def test_a_new_chat_forgets_what_was_said(self):
        expected = self.daemon.answer_to("And then?", max_tokens=8, temperature=0)
        self.browser.set_options(max_tokens=8, temperature=0)
        self.browser.ask(QUESTION)
        self.wait_for_end()
        self.browser.click("#chat-new")
        self.assertEqual(self.browser.all(".turn"), [])
        self.browser.ask("And then?")
        self.wait_for_end()
        self.assertEqual(self.browser.texts(".turn.assistant .body"), [expected])


if __name__ == "__main__":
    unittest.main()
