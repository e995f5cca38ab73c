import asyncio
import json
import os
import pathlib
import re
import uuid

from stint_client import AsyncStint, Key, Stint, StintError

from .support import CHECK, NOBODY, TIMEOUT, Case

CASES = json.loads((pathlib.Path(__file__).parents[2] / "conformance" / "cases.json").read_text())


def filled(value, name):
    if isinstance(value, str):
        return re.sub(r"@(\d+)", lambda match: "x" * int(match.group(1)), value.replace("$", name))
    if isinstance(value, list):
        return [filled(part, name) for part in value]
    if isinstance(value, dict):
        return {key: filled(part, name) for key, part in value.items()}
    return value


def result_of(call):
    try:
        return call()
    except StintError as error:
        return error


class ConformanceTest(Case):
    def clients(self, url, on_outage, timeout):
        stint, asynchronous = (make(url, on_outage=on_outage, timeout=timeout) for make in (Stint, AsyncStint))
        yield lambda method, *args, **options: result_of(lambda: getattr(stint, method)(*args, **options))
        yield lambda method, *args, **options: result_of(lambda: asyncio.run(getattr(asynchronous, method)(*args, **options)))

    def expect(self, want, result, on_outage):
        if "error" in want:
            self.assertIsInstance(result, StintError)
            self.assertEqual({"status": result.status, "field": result.field}, want["error"])
        elif "refuses" in want:
            self.assertEqual(any(policy.refuses for policy in result.policies), want["refuses"])
        elif want.get("outage"):
            self.assertIsNotNone(getattr(result, "outage", None), result)
            self.assertEqual((result.decision, result.allowed), ("allowed", True) if on_outage == "open" else ("unavailable", False))
        else:
            self.assertIsNone(getattr(result, "outage", None), result)
            self.assertEqual(result.decision, want["decision"])
            if "remaining" in want:
                self.assertEqual(result.rules[0].remaining, want["remaining"])

    def test_conversations(self):
        for case in CASES["conversations"]:
            for on_outage in ("open", "closed"):
                for call in self.clients(CHECK, on_outage, TIMEOUT):
                    name = uuid.uuid4().hex
                    for step in filled(case["steps"], name):
                        with self.subTest(case=case["name"], step=json.dumps(step)[:200]):
                            if "report" in step:
                                result = call("report", step["report"].pop("key"), step["report"].pop("outcome"), **step["report"])
                            else:
                                keys = [Key(**key) for key in step["check"].pop("keys", ())]
                                result = call("check", keys or step["check"].pop("key"), **step["check"])
                            self.expect(step["want"], result, on_outage)

    def test_faults(self):
        for index, case in enumerate(CASES["faults"]):
            url = NOBODY if case["server"].get("kind") == "nobody" else f"{os.environ['STINT_FAULTS_URL']}/{index}"
            for on_outage in ("open", "closed"):
                for call in self.clients(url, on_outage, case.get("timeout_ms", TIMEOUT * 1000) / 1000):
                    with self.subTest(case=case["name"], on_outage=on_outage):
                        self.expect(case["want"], call("check", "conformance:fault"), on_outage)
