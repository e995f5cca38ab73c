"""The node that the tests ask. Who runs them, go test ./test/clients, starts it and says where it is."""

import functools
import itertools
import json
import os
import unittest
import urllib.request
import uuid

CHECK = os.environ["STINT_CHECK_URL"]
ADMIN = os.environ["STINT_ADMIN_URL"]
ADMIN_TOKEN = os.environ["STINT_ADMIN_TOKEN"]
NOBODY = "http://127.0.0.1:1"  # where no server listens
TIMEOUT = 60.0  # a busy machine must not look like an outage

_numbers = itertools.count(1)


def admin(method, path, body=None):
    request = urllib.request.Request(ADMIN + path, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Authorization", "Bearer " + ADMIN_TOKEN)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or b"null")


@functools.lru_cache(maxsize=None)
def policy(match, *rules, **more):
    """Makes a policy of its own name, once."""
    name = f"p{uuid.uuid4().hex[:12]}"
    admin("PUT", f"/v1/policies/{name}?confirm={name}", {"match": [match], "rules": list(rules), **more})
    return name


def fresh(kind):
    return f"{kind}:{uuid.uuid4().hex}"


def address():
    """Returns an address that no other test uses."""
    n = next(_numbers) + (os.getpid() % 250) * 65536
    return f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"


class Case(unittest.TestCase):
    maxDiff = None
