import asyncio
import uuid

import flask
import flask_limiter
import limits
import limits.aio.strategies
import limits.storage
import limits.strategies

import stint_client.limits
from stint_client import StintError, StintOutage

from .support import ADMIN, ADMIN_TOKEN, CHECK, Case, admin, policy

HOST = CHECK.removeprefix("http://")
FIVE = limits.parse("5 per 2 minutes")


_kept = []  # a strategy of limits holds its storage weakly


def open_storage(url, **options):
    _kept.append(limits.storage.storage_from_string(url, **options))
    return _kept[-1]


def storage(query="", scheme="stint", **options):
    return open_storage(f"{scheme}://{HOST}/?timeout=60{query}", **options)


class StorageTest(Case):
    def setUp(self):
        policy("limits:5/120s:*", "5/2m", "100000/1d")

    def test_every_strategy_has_the_exact_limit(self):
        for strategy in (limits.strategies.FixedWindowRateLimiter, limits.strategies.MovingWindowRateLimiter):
            limiter, name = strategy(storage()), uuid.uuid4().hex
            self.assertTrue(limiter.test(FIVE, name))
            self.assertEqual(limiter.get_window_stats(FIVE, name)[1], 5)
            self.assertTrue(limiter.hit(FIVE, name, cost=3))
            self.assertFalse(limiter.hit(FIVE, name, cost=3))
            self.assertFalse(limiter.hit(FIVE, name, cost=6))
            self.assertEqual(limiter.get_window_stats(FIVE, name)[1], 2)
            self.assertTrue(limiter.hit(FIVE, name, cost=2))
            self.assertFalse(limiter.test(FIVE, name))
            self.assertFalse(limiter.hit(FIVE, name))
            self.assertEqual(limiter.get_window_stats(FIVE, name)[1], 0)
            self.assertTrue(limiter.hit(FIVE, "another", name))

    def test_the_asynchronous_storage(self):
        async def run():
            limiter, name = limits.aio.strategies.MovingWindowRateLimiter(storage(scheme="async+stint")), uuid.uuid4().hex
            hits = [await limiter.hit(FIVE, name) for _ in range(6)]
            stats = await limiter.get_window_stats(FIVE, name)
            fixed = limits.aio.strategies.FixedWindowRateLimiter(storage(scheme="async+stint"))
            return hits, stats[1], await fixed.hit(FIVE, name), await fixed.test(FIVE, name), await fixed.storage.check()

        self.assertEqual(asyncio.run(run()), ([True] * 5 + [False], 0, False, False, True))

    def test_a_limit_that_the_server_does_not_have_is_a_mistake(self):
        limiter = limits.strategies.FixedWindowRateLimiter(storage())
        with self.assertRaisesRegex(stint_client.limits.LimitMismatch, r"--match 'limits:7/60s:\*' --rule 7/60s"):
            limiter.hit(limits.parse("7/minute"), "a")
        chosen = limits.strategies.FixedWindowRateLimiter(storage("&limits=server"))
        self.assertTrue(chosen.hit(limits.parse("7/minute"), uuid.uuid4().hex))
        with self.assertRaises(StintError):
            limits.strategies.FixedWindowRateLimiter(storage("&policy=no-such-policy")).hit(FIVE, "a")
        with self.assertRaisesRegex(ValueError, "unknown options of the storage stint: polcy"):
            storage("&polcy=x")

    def test_keys_of_any_length_and_text(self):
        limiter = limits.strategies.FixedWindowRateLimiter(storage())
        for identifier in ("x" * 5000, "a\x00b" + uuid.uuid4().hex, "é" * 400, "a:b*/c"):
            self.assertTrue(limiter.hit(FIVE, identifier, uuid.uuid4().hex))

    def test_clear_needs_the_admin_listener(self):
        limiter, name = limits.strategies.FixedWindowRateLimiter(storage(admin_url=ADMIN, admin_token=ADMIN_TOKEN)), uuid.uuid4().hex
        for want in (True, False):
            self.assertEqual(limiter.hit(FIVE, name, cost=5), want)
        limiter.clear(FIVE, name)
        self.assertTrue(limiter.hit(FIVE, name))
        with self.assertRaises(ValueError):
            limits.strategies.FixedWindowRateLimiter(storage()).clear(FIVE, name)
        with self.assertRaises(NotImplementedError):
            limiter.storage.reset()

    def test_methods_of_later_versions(self):
        kept, key = storage(), FIVE.key_for(uuid.uuid4().hex)
        self.assertEqual([kept.acquire_sliding_window_entry(key, 5, 120, amount=n) for n in (3, 3, 2)], [True, False, True])
        previous, _, current, resets = kept.get_sliding_window(key, 120)
        self.assertEqual((previous, current), (0, 5))
        self.assertTrue(0 < resets <= 120)
        self.assertEqual(kept.incr(FIVE.key_for(uuid.uuid4().hex), 120, amount=2), 2)
        self.assertEqual(kept.base_exceptions, StintOutage)

    def test_an_outage_is_raised_or_answered(self):
        dead = "stint://127.0.0.1:1"
        with self.assertRaises(StintOutage):
            limits.strategies.FixedWindowRateLimiter(open_storage(dead)).hit(FIVE, "a")
        for choice, want in (("open", True), ("closed", False)):
            kept = open_storage(f"{dead}?on_outage={choice}")
            for strategy in (limits.strategies.FixedWindowRateLimiter, limits.strategies.MovingWindowRateLimiter):
                self.assertEqual((strategy(kept).hit(FIVE, "a"), strategy(kept).test(FIVE, "a")), (want, want))
        self.assertFalse(open_storage(dead).check())


class FlaskLimiterTest(Case):
    def test_flask_limiter_by_its_url(self):
        policy("limits:2/3600s:*", "2/1h")
        admin("POST", "/v1/blocks", {"pattern": "limits:2/3600s:LIMITER/blocked/*", "reason": "test"})
        for options in ({}, {"strategy": "moving-window"}):
            user = uuid.uuid4().hex
            app = flask.Flask(__name__)
            limiter = flask_limiter.Limiter(
                lambda: flask.request.args["user"], app=app, storage_uri=f"stint://{HOST}?timeout=60", headers_enabled=True, **options
            )

            @app.get("/")
            @limiter.limit("2/hour")
            def hello():
                return "Hello"

            client = app.test_client()
            answers = [client.get(f"/?user={user}") for _ in range(3)]
            self.assertEqual([answer.status_code for answer in answers], [200, 200, 429])
            self.assertEqual([answer.headers["X-RateLimit-Remaining"] for answer in answers], ["1", "0", "0"])
            self.assertGreater(int(answers[2].headers["Retry-After"]), 3000)
            self.assertEqual(client.get("/?user=" + uuid.uuid4().hex).status_code, 200)
            self.assertEqual(client.get("/?user=blocked").status_code, 429)

    def test_flask_limiter_falls_back_to_memory(self):
        app = flask.Flask(__name__)
        limiter = flask_limiter.Limiter(lambda: "a", app=app, storage_uri="stint://127.0.0.1:1", in_memory_fallback_enabled=True)
        app.get("/")(limiter.limit("1/hour")(lambda: "Hello"))
        client = app.test_client()
        self.assertEqual([client.get("/").status_code for _ in range(2)], [200, 429])
