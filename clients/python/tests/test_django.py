import asyncio
import json
import uuid

import django
import stint_client.django
from django.conf import settings

from .support import CHECK, NOBODY, TIMEOUT, Case, address, policy

STINT = {"url": CHECK, "on_outage": "closed", "timeout": TIMEOUT, "trusted_proxies": ["127.0.0.1"]}

settings.configure(
    SECRET_KEY="test",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "stint_client.django.StintConfig"],
    MIDDLEWARE=["stint_client.django.StintMiddleware", "django.contrib.sessions.middleware.SessionMiddleware"],
    AUTHENTICATION_BACKENDS=["stint_client.django.StintBackend", "django.contrib.auth.backends.ModelBackend"],
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    STINT=STINT,
    USE_TZ=True,
)
django.setup()

from django.contrib.auth import authenticate, get_user_model, login  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.test import AsyncClient, Client, override_settings  # noqa: E402
from django.urls import path  # noqa: E402


def hello(request):
    return HttpResponse(f"Hello {request.stint.decision}")


def sign_in(request):
    user = authenticate(request, username=request.POST["user"], password=request.POST["password"])
    if user is None:
        return HttpResponse("wrong", status=401)
    login(request, user)
    return HttpResponse("welcome")


urlpatterns = [path("", hello), path("login", sign_in)]


def only_login(request, status):
    return "seen" if request.path == "/" and status == 200 else None


class DjangoTest(Case):
    @classmethod
    def setUpClass(cls):
        call_command("migrate", verbosity=0)

    def test_requests_beyond_the_limit_are_refused(self):
        policy("ip:10.0.0.0/8", "2/1d")
        client, forwarded = Client(), address()
        answers = [client.get("/", HTTP_X_FORWARDED_FOR=forwarded) for _ in range(3)]
        self.assertEqual([answer.status_code for answer in answers], [200, 200, 429])
        self.assertEqual(answers[0].content, b"Hello allowed")
        self.assertIn("r=1;", answers[0]["RateLimit"])
        self.assertEqual((answers[2]["Content-Type"], json.loads(answers[2].content)["code"]), ("application/problem+json", "limited"))

    def test_asynchronous_requests(self):
        policy("ip:10.0.0.0/8", "2/1d")
        forwarded = address()

        async def get():
            return await AsyncClient().get("/", X_FORWARDED_FOR=forwarded)

        self.assertEqual([asyncio.run(get()).status_code for _ in range(3)], [200, 200, 429])

    def test_outages_are_answered_as_was_chosen(self):
        for choice, want in (("closed", 503), ("open", 200)):
            with override_settings(STINT={"url": NOBODY, "on_outage": choice}), self.assertLogs("stint_client", "WARNING"):
                self.assertEqual(Client().get("/").status_code, want)

    def test_wrong_settings_are_named(self):
        for given, what in (({}, "needs url and on_outage"), ({**STINT, "polcy": "x"}, "polcy"), (None, "must be a dict")):
            with override_settings(STINT=given), self.assertRaisesRegex(ImproperlyConfigured, what):
                Client().get("/")

    def test_functions_are_named_by_their_path(self):
        policy("ip:10.0.0.0/8", "1/1d", outcome="seen")
        policy("ip:10.0.0.0/8", "2/1d")
        forwarded = address()
        with override_settings(STINT={**STINT, "outcome": f"{__name__}.only_login"}):
            answers = [Client().get("/", HTTP_X_FORWARDED_FOR=forwarded).status_code for _ in range(2)]
        self.assertEqual(answers, [200, 429])

    def test_the_status_of_responses_is_reported(self):
        policy("ip:10.0.0.0/8", "1/1d", outcome="not_found")
        policy("ip:10.0.0.0/8", "2/1d")

        async def get(path, forwarded):
            return await AsyncClient().get(path, X_FORWARDED_FOR=forwarded)

        with override_settings(STINT={**STINT, "report_status": True}):
            for one in (lambda path, forwarded: Client().get(path, HTTP_X_FORWARDED_FOR=forwarded), lambda *given: asyncio.run(get(*given))):
                forwarded = address()
                self.assertEqual(one("/missing", forwarded).status_code, 404)
                stint_client.django.configured().stint.flush()
                asyncio.run(stint_client.django.configured().asynchronous.flush())
                self.assertEqual(one("/", forwarded).status_code, 429)

    def test_failed_logins_are_reported_and_refused(self):
        policy("login:*", "2/1d", outcome="login_failed")
        policy("account:*", "3/1d", outcome="login_failed")
        policy("login:*", "100000/1d")
        policy("account:*", "100000/1d")
        policy("ip:203.0.113.0/24", "100000/1d")
        name = "alice" + uuid.uuid4().hex[:12]
        get_user_model().objects.create_user(name, password="right")

        def enter(password, address, user=name):
            answer = Client().post("/login", {"user": user, "password": password}, HTTP_X_FORWARDED_FOR=address)
            return answer.status_code

        self.assertEqual(enter("right", "203.0.113.1"), 200)
        self.assertEqual([enter("wrong", "203.0.113.1") for _ in range(2)], [401, 401])
        self.assertEqual(enter("right", "203.0.113.1"), 401, "the address failed twice")
        self.assertEqual(enter("right", "203.0.113.2"), 200)
        # The refused login did not count itself: the account has one failure left.
        self.assertEqual([enter("wrong", "203.0.113.2"), enter("right", "203.0.113.2")], [401, 401])
        self.assertEqual(enter("wrong", "203.0.113.3", user="nobody"), 401)

    def test_a_login_survives_an_outage_of_reports(self):
        get_user_model().objects.create_user("bob", password="right")
        with override_settings(STINT={"url": NOBODY, "on_outage": "open"}), self.assertLogs("stint_client", "WARNING"):
            self.assertEqual(Client().post("/login", {"user": "bob", "password": "right"}).status_code, 200)
