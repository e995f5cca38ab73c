package clients

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/testnode"
)

// languages are how the programs of docs/CLIENTS.md are run, and what gives them time: a busy
// machine must not look like an outage of Stint.
var languages = map[string]struct {
	command []string
	begin   string
	slower  []string
}{
	"js": {[]string{"node", "--input-type=module", "-e"}, "", []string{"onOutage: 'closed'", "onOutage: 'closed', timeout: 60_000", "listen(8000", "listen(0"}},
	"python": {[]string{python(), "-c"}, "", []string{
		`on_outage="closed"`, `on_outage="closed", timeout=60`, `"on_outage": "closed"`, `"on_outage": "closed", "timeout": 60`,
	}},
	"php": {[]string{"php", "-r"}, `foreach (['Client', 'Refusal', 'Middleware'] as $name) require "src/$name.php"; require 'Nyholm/Psr7/autoload.php';`, []string{
		", 'closed')", ", 'closed', timeout: 60.0)",
	}},
}

// afterwards says what follows the program below a heading, and what all of it prints.
var afterwards = map[string]struct{ program, want string }{
	"Node.js": {"stint.close()", "true 0\n"},
	"express-rate-limit": {`
const codes = []
await new Promise((resolve) => server.once('listening', resolve))
for (let n = 0; n < 6; n++) codes.push((await fetch('http://127.0.0.1:' + server.address().port)).status)
console.log(codes.join(' '))
process.exit()`, "200 200 200 200 200 429\n"},
	"@nestjs/throttler": {`
console.log((await throttler.providers[0].useValue.storage.increment('alice', 60_000, 5, 60_000, 'default')).totalHits)
process.exit()`, "1\n"},
	"rate-limiter-flexible": {"stint.close()", "3\n"},
	"fetch": {`
import http from 'node:http'
const server = http.createServer((request, response) => response.end('Hello')).listen(0, '127.0.0.1', async () => {
  console.log(await (await fetch('http://127.0.0.1:' + server.address().port)).text())
  process.exit()
})`, "Hello\n"},
	"Python":                         {"", "True 0.0\n"},
	"limits, flask-limiter, slowapi": {"\nprint([app.test_client().get('/').status_code for _ in range(6)])", "[200, 200, 200, 200, 200, 429]\n"},
	"Flask":                          {"\nprint([app.test_client().get('/').status_code for _ in range(4)])", "[200, 200, 200, 429]\n"},
	"FastAPI": {`
import asyncio, httpx
async def get():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app, client=("203.0.113.9", 1)), base_url="http://site") as client:
        return (await client.get("/")).status_code
print([asyncio.run(get()) for _ in range(4)])`, "[200, 200, 200, 429]\n"},
	"Django": {`
import django
from django.conf import settings
from django.http import HttpResponse
from django.test import Client
from django.urls import path
class urls:
    urlpatterns = [path("", lambda request: HttpResponse(request.stint.decision))]
settings.configure(STINT=STINT, INSTALLED_APPS=INSTALLED_APPS, MIDDLEWARE=MIDDLEWARE, ALLOWED_HOSTS=["*"], ROOT_URLCONF=urls, SECRET_KEY="test")
django.setup()
print([Client().get("/", HTTP_X_FORWARDED_FOR="203.0.113.7").status_code for _ in range(4)])`, "[200, 200, 200, 429]\n"},
	"PHP": {"", "bool(true)\nfloat(0)\n"},
	"PSR-15": {`
$handler = new class implements Psr\Http\Server\RequestHandlerInterface {
    public function handle(Psr\Http\Message\ServerRequestInterface $request): Psr\Http\Message\ResponseInterface {
        return new Nyholm\Psr7\Response(200, [], $request->getAttribute('stint')->decision);
    }
};
$request = new Nyholm\Psr7\ServerRequest('GET', '/', [], null, '1.1', ['REMOTE_ADDR' => '203.0.113.8']);
for ($n = 0; $n < 4; $n++) echo $middleware->process($request, $handler)->getStatusCode(), ' ';`, "200 200 200 429 "},
}

var block = regexp.MustCompile("(?ms)^## ([^\n]+)\n|^```(js|python|php)\n(.*?)^```")

// The programs of docs/CLIENTS.md run as written.
func TestProgramsOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "CLIENTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	node := testnode.Start(t)
	for name, policy := range map[string]string{
		"five-a-minute": `{"match":["limits:5/60s:*"],"rules":["5/60s"]}`, "addresses": `{"match":["ip:*"],"rules":["3/1d"]}`,
	} {
		node.Do(t, "PUT", "/v1/policies/"+name+"?confirm="+name, policy, 201)
	}
	folders := map[string]string{"js": "node", "python": "python", "php": "php"}
	var heading string
	seen := 0
	for _, found := range block.FindAllStringSubmatch(string(page), -1) {
		if found[1] != "" {
			heading = found[1]
			continue
		}
		seen++
		language, after := languages[found[2]], afterwards[heading]
		t.Run(heading, func(t *testing.T) {
			at := strings.TrimPrefix(node.Check, "http://")
			text := strings.NewReplacer(append(language.slower, "stint://127.0.0.1:8080?on_outage=open", "stint://"+at+"?on_outage=open&timeout=60", "127.0.0.1:8080", at)...).Replace(found[3])
			program := exec.CommandContext(t.Context(), language.command[0], append(language.command[1:], language.begin+text+after.program)...)
			program.Dir = filepath.Join("..", "..", "clients", folders[found[2]])
			got, err := program.Output()
			if err != nil || after.want == "" || string(got) != after.want {
				t.Errorf("%v: got\n%swant\n%s", err, got, after.want)
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					t.Logf("%s", exit.Stderr)
				}
			}
		})
	}
	if seen != len(afterwards) {
		t.Errorf("the page has %d programs, want %d", seen, len(afterwards))
	}
}
