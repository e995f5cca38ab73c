import asyncio
import json

import flask
import httpx
import starlette.applications
import starlette.responses
import starlette.routing
import starlette.testclient
import starlette.websockets
from fastapi import FastAPI

import stint_client.asgi
import stint_client.wsgi
from stint_client import AsyncStint, Key, Stint, hash_of

from .support import CHECK, NOBODY, TIMEOUT, Case, address, admin, policy


def flask_app(stint, **options):
    app = flask.Flask(__name__)

    @app.route("/", defaults={"path": ""}, methods=["GET", "POST"])
    @app.route("/<path:path>", methods=["GET", "POST"])
    def hello(path):
        if path == "broken":
            raise RuntimeError("broken")
        if path == "stream":
            return flask.Response(iter(["a", "b"]))
        return "Hello", {"login": 401, "missing": 404}.get(path, 200)

    app.wsgi_app = stint_client.wsgi.StintMiddleware(app.wsgi_app, stint(Stint), **options)
    client = app.test_client()

    def get(path, address, **headers):
        answer = client.get(path, environ_base={"REMOTE_ADDR": address}, headers=headers)
        body = answer.get_data(as_text=True)
        answer.close()  # as servers do once it is sent
        return answer.status_code, dict(answer.headers), body

    return get


def asgi(app):
    def get(path, address, **headers):
        async def ask():
            transport = httpx.ASGITransport(app=app, client=(address, 1), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://site.example") as client:
                answer = await client.get(path, headers=headers)
                return answer.status_code, {name.title(): value for name, value in answer.headers.items()}, answer.text

        return asyncio.run(ask())

    return get


def starlette_app(stint, **options):
    async def hello(request):
        if request.url.path == "/broken":
            raise RuntimeError("broken")
        if request.url.path == "/stream":

            async def parts():
                yield "a"
                yield "b"

            return starlette.responses.StreamingResponse(parts())
        return starlette.responses.PlainTextResponse("Hello", {"/login": 401, "/missing": 404}.get(request.url.path, 200))

    app = starlette.applications.Starlette(routes=[starlette.routing.Route("/{path:path}", hello)])
    app.add_middleware(stint_client.asgi.StintMiddleware, stint=stint(AsyncStint), **options)
    return asgi(app)


def fastapi_app(stint, **options):
    app = FastAPI()

    @app.get("/{path:path}")
    async def hello(path: str):
        if path == "broken":
            raise RuntimeError("broken")
        return starlette.responses.PlainTextResponse("Hello", {"login": 401, "missing": 404}.get(path, 200))

    app.add_middleware(stint_client.asgi.StintMiddleware, stint=stint(AsyncStint), **options)
    return asgi(app)


def each(test):
    """Runs a test with each framework."""

    def run(self):
        for make in (flask_app, starlette_app, fastapi_app):
            with self.subTest(framework=make.__name__):
                test(self, make)

    return run


def flushed(stint):
    """Waits until what a client reports has been sent."""
    if isinstance(stint, AsyncStint):
        asyncio.run(stint.flush())
    else:
        stint.flush()


def node(on_outage="closed"):
    return lambda kind: kind(CHECK, on_outage=on_outage, timeout=TIMEOUT)


class MiddlewareTest(Case):
    @each
    def test_requests_beyond_the_limit_are_refused(self, make):
        policy("ip:10.0.0.0/8", "2/1d")
        get, client = make(node()), address()
        for left in (1, 0):
            status, headers, body = get("/", client)
            self.assertEqual((status, body), (200, "Hello"))
            self.assertIn(f"r={left};", headers["Ratelimit"] if "Ratelimit" in headers else headers["RateLimit"])
        status, headers, body = get("/", client)
        problem = json.loads(body)
        self.assertEqual((status, headers["Content-Type"]), (429, "application/problem+json"))
        self.assertEqual((problem["status"], problem["code"], problem["violated-policies"]), (429, "limited", ["2/1d"]))
        self.assertGreater(int(headers["Retry-After"]), 0)
        admin("POST", "/v1/blocks", {"pattern": "ip:" + client, "reason": "secret words"})
        status, headers, body = get("/", client)
        self.assertEqual((status, json.loads(body)["code"]), (403, "blocked"))
        self.assertNotIn("secret", body)

    @each
    def test_outages_are_answered_as_was_chosen(self, make):
        errors = []
        options = {"on_error": lambda error, request: errors.append(request.path)}
        status, headers, body = make(lambda kind: kind(NOBODY, on_outage="closed"), **options)("/a", "10.0.0.1")
        self.assertEqual((status, headers["Retry-After"], json.loads(body)["code"]), (503, "1", "unavailable"))
        self.assertEqual(make(lambda kind: kind(NOBODY, on_outage="open"), **options)("/b", "10.0.0.1")[0], 200)
        self.assertEqual(errors, ["/a", "/b"])

    @each
    def test_wrong_keys_are_refused(self, make):
        for key in ("", None, 7, [], [None], "site:\x00", "site:\ud800", "site:" + "x" * 600, ["site:a", "site:a"]):
            status, _, body = make(node("open"), key=lambda request: key)("/", "10.0.0.1")
            self.assertEqual((status, json.loads(body)["code"]), (400, "invalid"), key)
        status, headers, body = make(node("open"), policy="no-such-policy")("/", "10.0.0.1")
        self.assertEqual((status, headers["Retry-After"]), (503, "1"))
        self.assertNotIn("policy", body)

    @each
    def test_conditions_match_the_path_as_the_application_sees_it(self, make):
        admin("PUT", f"/v1/policies/trap-{make.__name__.replace('_', '-')}", {
            "match": [f"{make.__name__}:*"], "rules": ["0/1s"], "when": {"path": ["/.env*"], "agent": ["*sqlmap*"], "method": ["GET"]},
        })  # fmt: skip
        policy(f"{make.__name__}:*", "100000/1d")
        get = make(node(), key=lambda request: f"{make.__name__}:a")
        agent = {"User-Agent": "sqlMap/1.8"}
        self.assertEqual(get("/%2eenv?x=1", "10.0.0.1", **agent)[0], 429)
        self.assertEqual(get("/" + "a/" * 5000 + "%2e%2e/" * 5000 + ".env", "10.0.0.1", **agent)[0], 429)
        self.assertEqual(get("/%252eenv", "10.0.0.1", **agent)[0], 200)
        self.assertEqual(get("/.env", "10.0.0.1", **{"User-Agent": "curl"})[0], 200)
        self.assertEqual(get("/" + "a" * 9000, "10.0.0.1", **{"User-Agent": "x" * 3000})[0], 200)

    @each
    def test_outcomes_of_responses_are_reported(self, make):
        policy("pyoutcome:*", "1/1d", outcome="login_failed")
        policy("pyoutcome:*", "100000/1d")
        errors, name = [], f"pyoutcome:{make.__name__}"
        options = {
            "key": lambda request: [Key(name), "pyoutcome:other-" + hash_of(name)],
            "outcome": lambda request, status: "login_failed" if status in (401, 500) else None,
            "on_error": lambda error, request: errors.append(error),
        }
        get = make(node(), **options)
        self.assertEqual(get("/", "10.0.0.1")[0], 200)
        self.assertEqual(get("/login" if make is not starlette_app else "/broken", "10.0.0.1")[0] in (401, 500), True)
        self.assertEqual(get("/", "10.0.0.1")[0], 429)
        self.assertEqual(errors, [])

    @each
    def test_the_status_of_responses_is_reported(self, make):
        policy("pystatus:*", "1/1d", outcome="not_found")
        policy("pystatus:*", "100000/1d")
        clients, errors = [], []

        def connect(kind):
            clients.append(node()(kind))
            return clients[-1]

        key = f"pystatus:{hash_of(make.__name__ + str(address()))}"
        get = make(connect, key=lambda request: [key, "pyplain:a"], report_status=True, on_error=lambda error, request: errors.append(error))
        policy("pyplain:*", "100000/1d")
        for path, want in (("/", 200), ("/broken", 500), ("/missing", 404), ("/", 429)):
            self.assertEqual(get(path, "10.0.0.1")[0], want, path)
            flushed(clients[0])
        self.assertEqual((errors, clients[0].dropped), ([], 0))

    def test_a_streamed_response_passes(self):
        policy("pystream:*", "100000/1d")
        for make in (flask_app, starlette_app):
            get = make(node(), key=lambda request: "pystream:a", outcome=lambda request, status: "streamed")
            self.assertEqual(get("/stream", "10.0.0.1")[::2], (200, "ab"))

    def test_websockets_are_refused_before_they_are_accepted(self):
        policy("pysocket:*", "1/1d")

        async def socket(websocket):
            await websocket.accept()
            await websocket.send_text("hello")
            await websocket.close()

        app = starlette.applications.Starlette(routes=[starlette.routing.WebSocketRoute("/", socket)])
        options = {"key": lambda request: "pysocket:a"}
        app.add_middleware(stint_client.asgi.StintMiddleware, stint=AsyncStint(CHECK, on_outage="closed", timeout=TIMEOUT), **options)
        with starlette.testclient.TestClient(app) as client:
            with client.websocket_connect("/") as websocket:
                self.assertEqual(websocket.receive_text(), "hello")
            with self.assertRaises(starlette.websockets.WebSocketDisconnect) as caught:
                client.websocket_connect("/").__enter__()
            self.assertEqual(caught.exception.code, 1008)
