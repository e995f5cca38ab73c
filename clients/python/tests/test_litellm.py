"""The hook is called as the proxy of LiteLLM calls it. LiteLLM is not in Debian, so its base class, which only has hooks that do
nothing, is made here."""

import asyncio
import sys
import types
import unittest

from stint_client import AsyncStint

from .support import CHECK, NOBODY, TIMEOUT, Case, fresh, policy

try:
    import litellm.integrations.custom_logger  # noqa: F401
except ImportError:
    module = types.ModuleType("litellm.integrations.custom_logger")
    module.CustomLogger = type("CustomLogger", (), {"__init__": lambda self, *a, **k: None})
    sys.modules.update({"litellm": types.ModuleType("litellm"), "litellm.integrations": types.ModuleType("litellm.integrations"), module.__name__: module})

from fastapi import HTTPException  # noqa: E402

from stint_client.litellm import StintHook, estimate, keys_of  # noqa: E402


class Caller:
    team_id = None
    api_key = None

    def __init__(self, token):
        self.token = token


def logged(data, tokens, **more):
    return {"litellm_call_id": data["litellm_call_id"], "standard_logging_object": {"total_tokens": tokens}, **more}


class LiteLLMTest(Case):
    def hook(self, url=CHECK, **options):
        return StintHook(AsyncStint(url, on_outage=options.pop("on_outage", "closed"), timeout=TIMEOUT), **options)

    def budget(self, *rules):
        token = fresh("x").partition(":")[2]
        policy("llm-key:" + token, *rules, unit="tokens", hold="2m")
        return Caller(token)

    def test_calls_hold_and_settle(self):
        caller = self.budget("1000 tokens/1d", "2 concurrent")

        async def play():
            hook = self.hook()

            def call():
                return hook.async_pre_call_hook(caller, None, {"max_tokens": 600}, "completion")

            first = await call()
            with self.assertRaises(HTTPException) as refused:
                await call()
            self.assertEqual(refused.exception.status_code, 429)
            self.assertGreater(int(refused.exception.headers["Retry-After"]), 0)
            await hook.async_log_pre_api_call("m", [], first)
            await hook.async_log_success_event(logged(first, 100), None, None, None)
            await hook.async_log_success_event(logged(first, 900), None, None, None)  # settled already
            second = await call()
            await hook.async_log_success_event(logged(second, 600, cache_hit=True), None, None, None)
            third = await call()
            await hook.async_post_call_failure_hook(third, ValueError("another hook"), caller)
            fourth = await call()
            await hook.async_log_pre_api_call("m", [], fourth)
            await hook.async_log_failure_event(logged(fourth, 0), None, None, None)  # the proxy tries again
            with self.assertRaises(HTTPException):
                await call()
            await hook.async_log_success_event(logged(fourth, 50), None, None, None)  # 150 of 1000
            fifth = await call()
            await hook.async_log_pre_api_call("m", [], fifth)
            await hook.async_post_call_failure_hook(fifth, ValueError("the provider fails"), caller)
            sixth = await call()
            await hook.async_log_pre_api_call("m", [], sixth)
            await hook.async_post_call_failure_hook(sixth, asyncio.CancelledError(), caller)  # the caller has gone: 750
            with self.assertRaises(HTTPException):
                await call()
            self.assertEqual(len(hook._open), 0)

        asyncio.run(play())

    def test_two_calls_of_one_id_are_both_settled(self):
        caller = self.budget("1000 tokens/1d", "2 concurrent")

        async def play():
            hook = self.hook()
            calls = [await hook.async_pre_call_hook(caller, None, {"max_tokens": 400, "litellm_call_id": "chosen"}, "completion") for _ in range(2)]
            for data in calls:
                await hook.async_log_success_event(logged(data, 100), None, None, None)
            self.assertEqual(len(hook._open), 0)
            with self.assertRaises(HTTPException):  # 200 of 1000
                await hook.async_pre_call_hook(caller, None, {"max_tokens": 801}, "completion")
            await hook.async_pre_call_hook(caller, None, {"max_tokens": 800}, "completion")
            with self.assertRaises(HTTPException) as wrong:
                await hook.async_pre_call_hook(caller, None, {"max_tokens": 5000}, "completion")
            self.assertEqual(wrong.exception.status_code, 400)

        asyncio.run(play())

    def test_a_stream_that_is_broken_off_is_charged_as_held(self):
        caller = self.budget("1000 tokens/1d", "2 concurrent")

        async def play():
            hook = self.hook()

            async def answer():
                for n in range(3):
                    yield n

            data = await hook.async_pre_call_hook(caller, None, {"max_tokens": 500, "stream": True}, "completion")
            stream = hook.async_post_call_streaming_iterator_hook(caller, answer(), data)
            self.assertEqual(await stream.__anext__(), 0)
            await stream.aclose()
            self.assertEqual(len(hook._open), 0)
            data = await hook.async_pre_call_hook(caller, None, {"max_tokens": 400, "stream": True}, "completion")
            self.assertEqual([n async for n in hook.async_post_call_streaming_iterator_hook(caller, answer(), data)], [0, 1, 2])
            await hook.async_log_success_event(logged(data, 40), None, None, None)
            with self.assertRaises(HTTPException):  # 540 of 1000
                await hook.async_pre_call_hook(caller, None, {"max_tokens": 470}, "completion")
            await hook.async_pre_call_hook(caller, None, {"max_tokens": 460}, "completion")

        asyncio.run(play())

    def test_an_outage_is_as_chosen(self):
        async def play():
            data = {"max_tokens": 1}
            self.assertIs(await self.hook(NOBODY, on_outage="open").async_pre_call_hook(Caller("a"), None, data, "completion"), data)
            with self.assertRaises(HTTPException) as refused:
                await self.hook(NOBODY).async_pre_call_hook(Caller("a"), None, data, "completion")
            self.assertEqual(refused.exception.status_code, 503)

        asyncio.run(play())

    def test_estimates_and_keys(self):
        self.assertEqual(estimate({"max_tokens": 1, "max_completion_tokens": 700}), 700)
        self.assertEqual(estimate({"messages": [{"content": "x" * 400}], "n": 2, "max_tokens": 10}), 20 + (400 + len('[{"content": ""}]')) // 4)
        self.assertEqual(estimate({}), 1024)
        self.assertEqual(estimate({"max_tokens": -100000}), 1024)
        image = {"messages": [{"url": "data:image/png;base64," + "A" * 100000}], "max_tokens": 10}
        self.assertLess(estimate(image), 30)
        caller = Caller("hash")
        caller.team_id = "search"
        self.assertEqual(keys_of(caller, {"model": "m"}), ["team:search", "llm-key:hash", "model:m"])
        self.assertEqual(keys_of(Caller(None), {}), [])


if __name__ == "__main__":
    unittest.main()
