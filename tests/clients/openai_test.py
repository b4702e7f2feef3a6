# tests/clients/openai_test.py: the official openai package against a daemon with the demo model.
import asyncio
import unittest

import openai

from running_daemon import RunningDaemon, until

SAY = [{"role": "user", "content": "In the beginning"}]
FIXED = {"model": "chapbook", "temperature": 0, "max_tokens": 40, "extra_body": {"ignore_eos": True}}


class OpenaiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = RunningDaemon(key="a-key-of-its-own", context="512")
        cls.client = openai.OpenAI(base_url=cls.daemon.url + "/v1", api_key=cls.daemon.key, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.daemon.close()

    def test_a_stream_says_what_the_whole_answer_says_and_counts_its_tokens(self):
        whole = self.client.chat.completions.create(messages=SAY, **FIXED)
        self.assertEqual(whole.choices[0].finish_reason, "length")
        self.assertEqual(whole.usage.completion_tokens, 40)
        self.assertEqual(whole.usage.total_tokens, whole.usage.prompt_tokens + 40)
        chunks = list(self.client.chat.completions.create(messages=SAY, stream=True, stream_options={"include_usage": True}, **FIXED))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual([c.usage for c in chunks if c.usage], [whole.usage])
        self.assertEqual({c.id for c in chunks}, {chunks[0].id})

    def test_completions_and_chats_of_several_choices_have_an_answer_each_and_a_seed_repeats_them(self):
        ask = lambda: self.client.chat.completions.create(messages=SAY, n=3, seed=5, **{**FIXED, "temperature": 1.5})
        first, again = ask(), ask()
        texts = [c.message.content for c in first.choices]
        self.assertEqual([c.index for c in first.choices], [0, 1, 2])
        self.assertEqual(len(set(texts)), 3)
        self.assertEqual(texts, [c.message.content for c in again.choices])
        plain = self.client.completions.create(prompt="In the beginning", **FIXED)
        self.assertGreater(len(plain.choices[0].text), 20)

    def test_log_probabilities_come_with_each_token_likeliest_first(self):
        answer = self.client.chat.completions.create(messages=SAY, logprobs=True, top_logprobs=3, **FIXED)
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), 40)
        for token in content:
            self.assertEqual(token.logprob, token.top_logprobs[0].logprob)  # greedy
            self.assertEqual([t.logprob for t in token.top_logprobs], sorted((t.logprob for t in token.top_logprobs), reverse=True))
            self.assertLessEqual(token.logprob, 0)

    def test_a_stop_string_ends_the_answer_before_it(self):
        whole = self.client.chat.completions.create(messages=SAY, **FIXED).choices[0].message.content
        word = whole.split()[4]
        cut = self.client.chat.completions.create(messages=SAY, stop=[word], **FIXED)
        self.assertEqual(cut.choices[0].finish_reason, "stop")
        self.assertEqual(cut.choices[0].message.content, whole[: whole.index(word)])

    def test_an_async_client_streams_several_answers_at_once(self):
        async def one(client, seed):
            text = ""
            stream = await client.chat.completions.create(messages=SAY, stream=True, seed=seed, **{**FIXED, "temperature": 1.0})
            async for chunk in stream:
                text += chunk.choices[0].delta.content or "" if chunk.choices else ""
            return text

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=self.daemon.url + "/v1", api_key=self.daemon.key, max_retries=0) as client:
                return await asyncio.gather(*(one(client, seed) for seed in range(6)))

        together = asyncio.run(all_of_them())
        for seed, text in enumerate(together):
            alone = self.client.chat.completions.create(messages=SAY, seed=seed, **{**FIXED, "temperature": 1.0})
            self.assertEqual(text, alone.choices[0].message.content)

    def test_a_client_that_leaves_in_mid_answer_ends_it(self):
        stream = self.client.chat.completions.create(messages=SAY, stream=True, **{**FIXED, "max_tokens": 400})
        next(iter(stream))
        self.assertEqual(self.daemon.ask("GET", "/v1/status")["sessions"], 1)
        stream.close()
        until("the answer has ended", lambda: self.daemon.ask("GET", "/v1/status")["sessions"] == 0)

    def test_the_errors_are_those_that_the_package_knows(self):
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=self.daemon.url + "/v1", api_key="another", max_retries=0).models.list()
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("no-such-model")
        with self.assertRaises(openai.BadRequestError) as long:
            self.client.chat.completions.create(messages=[{"role": "user", "content": "word " * 700}], **FIXED)
        self.assertEqual(long.exception.code, "context_length_exceeded")
        self.assertRegex(long.exception.message, r"\d+ tokens.*512")
        with self.assertRaises(openai.BadRequestError) as form:
            self.client.chat.completions.create(messages=SAY, response_format={"type": "json_object"}, **FIXED)
        self.assertEqual(form.exception.param, "response_format")
        with self.assertRaises(openai.BadRequestError) as hot:
            self.client.chat.completions.create(messages=SAY, **{**FIXED, "temperature": -1})
        self.assertEqual(hot.exception.param, "temperature")

    def test_the_models_list_names_what_answers_are_from(self):
        model = self.client.models.list().data[0].id
        self.assertEqual(self.client.models.retrieve(model).id, model)
        self.assertEqual(self.client.chat.completions.create(messages=SAY, **FIXED).model, model)


if __name__ == "__main__":
    unittest.main()
