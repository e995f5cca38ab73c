import asyncio
import os
import threading
import unittest

from stint_client import AsyncStint, Check, Key, Report, Stint, StintError, StintOutage, address_key, login_keys
from stint_client import Incoming

from .support import ADMIN, ADMIN_TOKEN, CHECK, NOBODY, TIMEOUT, Case, fresh, policy


def both(test):
    """Runs a test with the blocking client and with the asynchronous one."""

    def run(self):
        for asynchronous in (False, True):
            with self.subTest(asynchronous=asynchronous):
                test(self, lambda *args, **options: _Plain(AsyncStint(*args, **options)) if asynchronous else Stint(*args, **options))

    return run


class _Plain:
    """The asynchronous client with blocking calls, each in an event loop of its own."""

    def __init__(self, stint):
        self._stint = stint

    def __getattr__(self, name):
        method = getattr(self._stint, name)

        async def call(*args, **options):
            return await method(*args, **options)

        return lambda *args, **options: asyncio.run(call(*args, **options))


class ClientTest(Case):
    @both
    def test_a_key_is_limited_by_its_policy(self, connect):
        policy("pyclient:*", "3/1d")
        stint, key = connect(CHECK, on_outage="raise", timeout=TIMEOUT), fresh("pyclient")
        for left in (2, 1, 0):
            decision = stint.check(key)
            self.assertTrue(decision.allowed)
            self.assertEqual((decision.rules[0].limit, decision.rules[0].remaining), (3, left))
        self.assertIn("RateLimit", decision.headers)
        self.assertEqual(stint.check(key, peek=True).decision, "limited")
        decision = stint.check(key)
        self.assertEqual((decision.decision, decision.allowed, decision.rule), ("limited", False, "3/1d"))
        self.assertTrue(decision.id and decision.retry_after > 0 and int(decision.headers["Retry-After"]) > 0)
        operator = connect(CHECK, on_outage="raise", timeout=TIMEOUT, admin_url=ADMIN, admin_token=ADMIN_TOKEN)
        operator.reset(key)
        operator.close()
        self.assertTrue(stint.check(key).allowed)

    @both
    def test_all_keys_are_charged_or_none(self, connect):
        policy("pyall:*", "2/1d")
        stint, full, other = connect(CHECK, on_outage="raise", timeout=TIMEOUT), fresh("pyall"), fresh("pyall")
        self.assertTrue(stint.check(full, cost=2).allowed)
        decision = stint.check([Key(other, cost=1), full])
        self.assertEqual([d.allowed for d in decision.decisions], [True, False])
        self.assertFalse(decision.allowed)
        self.assertEqual(stint.check(other, peek=True).rules[0].remaining, 2)

    @both
    def test_a_batch_answers_each_check(self, connect):
        policy("pybatch:*", "1/1d")
        stint, key = connect(CHECK, on_outage="raise", timeout=TIMEOUT), fresh("pybatch")
        first, second, wrong = stint.check_many([Check(key), Check(key), Check("")])
        self.assertEqual((first.decision, second.decision), ("allowed", "limited"))
        self.assertIsInstance(wrong, StintError)
        self.assertEqual((wrong.status, wrong.field), (422, "key"))

    @both
    def test_outcomes_are_reported(self, connect):
        policy("pyreport:*", "2/1d", outcome="login_failed")
        stint, key = connect(CHECK, on_outage="raise", timeout=TIMEOUT), fresh("pyreport")
        hostile = {"request": {"path": "/" + "./" * 9000 + "login", "agent": "a\ud800\n" + "x" * 3000}, "values": {"account": "\x01" * 4000}}
        reported = stint.report(key, "login_failed", **hostile)
        self.assertEqual([p.result for p in reported.policies], ["charged"])
        charged, wrong = stint.report_many([Report(key, "login_failed"), Report(key, "Wrong")])
        self.assertTrue(charged.policies[0].refuses)
        self.assertEqual(wrong.field, "outcome")
        self.assertEqual(stint.check(key, **hostile).decision, "limited")

    @both
    def test_holds_are_settled_released_and_renewed(self, connect):
        policy("pyamount:*", "10 tokens/1d", unit="tokens")
        stint, key = connect(CHECK, on_outage="raise", timeout=TIMEOUT), fresh("pyamount")
        held = stint.check(key, cost=8, hold="10m").hold
        self.assertEqual(stint.check(key, peek=True).rules[0].remaining, 2)
        self.assertGreater(stint.extend(held.handle, "20m").expires_at, held.expires_at)
        self.assertEqual([(s.state, s.cost) for s in (stint.settle(held.handle, 3), stint.settle(held.handle, 3))], [("settled", 3)] * 2)
        with self.assertRaises(StintError) as caught:
            stint.settle(held.handle, 4)
        self.assertEqual((caught.exception.status, caught.exception.code), (409, "settled"))
        self.assertEqual(stint.release(stint.check(key, cost=7, hold="10m").hold.handle).state, "released")
        self.assertEqual(stint.check(key, peek=True).rules[0].remaining, 7)

    @both
    def test_a_mistake_is_an_error_whatever_an_outage_is_answered(self, connect):
        for on_outage in ("open", "closed", "raise"):
            stint = connect(CHECK, on_outage=on_outage, timeout=TIMEOUT)
            for key in ("", "pymistake:\x00", "pymistake:" + "x" * 600, ["a:b", "a:b"], []):
                with self.assertRaises(StintError) as caught:
                    stint.check(key)
                self.assertRegex(caught.exception.field, "^keys?")
            with self.assertRaises(StintError) as caught:
                stint.check("a:b", policy="no-such-policy")
            self.assertEqual((caught.exception.field, caught.exception.code), ("policy", "invalid"))

    @both
    def test_an_outage_is_answered_as_was_chosen(self, connect):
        decision = connect(NOBODY, on_outage="open", timeout=TIMEOUT).check("a:b")
        self.assertEqual((decision.decision, decision.allowed, decision.degraded), ("allowed", True, True))
        self.assertIsInstance(decision.outage, StintOutage)
        closed = connect(NOBODY, on_outage="closed", timeout=TIMEOUT)
        decision = closed.check("a:b")
        self.assertEqual((decision.decision, decision.allowed, decision.headers), ("unavailable", False, {"Retry-After": "1"}))
        self.assertEqual([d.decision for d in closed.check_many([Check("a:b"), Check("a:c")])], ["unavailable", "unavailable"])
        with self.assertRaises(StintOutage):
            connect(NOBODY, on_outage="raise", timeout=TIMEOUT).check("a:b")
        with self.assertRaises(StintOutage):
            connect(NOBODY, on_outage="open", timeout=TIMEOUT).report("a:b", "login_failed")

    def test_wrong_options_are_refused(self):
        for options in ({"on_outage": "maybe"}, {"on_outage": "open", "timeout": 0}, {"on_outage": "open", "token": "a b"}, {"on_outage": "open", "token": "a\n"}):
            for make in (Stint, AsyncStint):
                with self.assertRaises(ValueError):
                    make(CHECK, **options)
        for url in ("stint", "ftp://a", "http://u:p@127.0.0.1"):
            with self.assertRaises(ValueError):
                Stint(url, on_outage="open")
        with self.assertRaises(TypeError):
            Stint(CHECK)

    def test_threads_and_forks_share_no_connection(self):
        policy("pythread:*", "100000/1d")
        stint, keys = Stint(CHECK, on_outage="raise", timeout=TIMEOUT, connections=4), [fresh("pythread") for _ in range(16)]
        wrong = []

        def ask(key):
            for n in range(20):
                decision = stint.check(key)
                if decision.key != key or decision.rules[0].remaining != 99999 - n:
                    wrong.append(decision)

        threads = [threading.Thread(target=ask, args=(key,)) for key in keys]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        child = os.fork()
        if child == 0:
            answers = {stint.check(key, peek=True).key for key in keys}
            os._exit(0 if answers == set(keys) else 1)
        self.assertEqual([stint.check(key, peek=True).key for key in keys], keys)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_tasks_share_connections_of_their_loop(self):
        policy("pytask:*", "100000/1d")
        stint, keys = AsyncStint(CHECK, on_outage="raise", timeout=TIMEOUT, connections=4), [fresh("pytask") for _ in range(64)]

        async def ask():
            first = await asyncio.gather(*(stint.check(key) for key in keys))
            cancelled = asyncio.ensure_future(stint.check(keys[0]))
            await asyncio.sleep(0)
            cancelled.cancel()
            return first + await asyncio.gather(*(stint.check(key) for key in keys))

        for _ in range(2):
            self.assertEqual([decision.key for decision in asyncio.run(ask())], keys + keys)


class KeyTest(unittest.TestCase):
    def test_addresses_of_proxies(self):
        key = address_key("127.0.0.1", "10.0.0.0/8", "::1")
        for connection, forwarded, want in (
            ("192.0.2.1", "203.0.113.7", "ip:192.0.2.1"),
            ("127.0.0.1", "203.0.113.9, 203.0.113.7", "ip:203.0.113.7"),
            ("127.0.0.1", "203.0.113.7, 10.1.2.3", "ip:203.0.113.7"),
            ("::ffff:127.0.0.1", "[2001:db8::1]:443", "ip:2001:db8::1"),
            ("127.0.0.1", "nonsense", "ip:127.0.0.1"),
            ("::1", "203.0.113.7:5000", "ip:203.0.113.7"),
        ):
            self.assertEqual(key(Incoming("GET", "/", None, None, connection, {"x-forwarded-for": forwarded}, None)), want)

    def test_keys_of_logins(self):
        self.assertEqual(login_keys("192.0.2.1", "alice"), ["login:192.0.2.1", "account:alice"])
        self.assertEqual(login_keys("2001:db8:0:1:2:3:4:5", None), ["login:2001:db8:0:1::/64"])
        self.assertEqual(len(login_keys("192.0.2.1", "x" * 600)[1]), len("account:") + 32)


if __name__ == "__main__":
    unittest.main()

    def test_reports_are_queued_and_dropped_beyond_a_bound(self):
        stint, sizes, may_go = Stint(NOBODY, on_outage="closed"), [], threading.Event()

        def send(reports):
            may_go.wait()
            sizes.append(len(reports))
            return [StintError(422) if report.key == "" else None for report in reports]

        stint._soon._send = send
        for _ in range(5000):
            stint.report_soon(Report("ip:192.0.2.1", status=200, request={"path": "/" + "x" * 100000}))
        self.assertLessEqual(max(len(report.request["path"]) for report in stint._soon._waiting), 8192)
        may_go.set()
        stint.flush()
        self.assertEqual(sum(sizes) + stint.dropped, 5000)
        self.assertTrue(4096 <= sum(sizes) <= 4096 + 64 and max(sizes) <= 64, sizes)
        before = stint.dropped
        stint.report_soon(Report("", status=200))
        stint.flush()
        self.assertEqual(stint.dropped, before + 1)
        for gone in (Stint(NOBODY, on_outage="open"), AsyncStint(NOBODY, on_outage="open")):
            gone.report_soon(Report("ip:192.0.2.1", status=200))
            asyncio.run(gone.flush()) if isinstance(gone, AsyncStint) else gone.flush()
            self.assertEqual(gone.dropped, 1)

    def test_a_forked_process_sends_its_own_reports(self):
        policy("pyfork:*", "1/1d", outcome="not_found")
        policy("pyfork:*", "100000/1d")
        stint, key = Stint(CHECK, on_outage="closed", timeout=TIMEOUT), fresh("pyfork")
        stint.report_soon(Report("pyfork:parent", status=200))
        child = os.fork()
        if child == 0:
            stint.report_soon(Report(key, status=404, request={"path": "/missing"}))
            stint.flush()
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        stint.flush()
        self.assertFalse(stint.check(key, peek=True).allowed)
