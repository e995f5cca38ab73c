package site

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"regexp"

	"github.com/gofiber/fiber/v2"
	"github.com/klauspost/compress/gzip"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/web"
)

// asset is a static file.
type asset struct {
	body []byte
	gzip []byte // compressed body, nil for fonts, which are already compressed
	kind string
	tag  string // hash of the content
}

var assetKinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".woff2": "font/woff2",
}

var assets = readAssets()

func readAssets() map[string]asset {
	all := map[string]asset{}
	// It needs more than a megabyte, which is freed after all files are compressed. fasthttp
	// would keep its own writer as long as the node runs.
	compressor, _ := gzip.NewWriterLevel(nil, gzip.BestCompression) // the level is valid
	entries, err := fs.ReadDir(web.Static, "static")
	if err != nil {
		panic(err) // cannot happen: the files are embedded
	}
	for _, entry := range entries {
		kind, served := assetKinds[path.Ext(entry.Name())]
		if !served {
			continue
		}
		body, err := web.Static.ReadFile("static/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(body)
		a := asset{body: body, kind: kind, tag: hex.EncodeToString(sum[:8])}
		if kind != "font/woff2" {
			a.gzip = compressed(compressor, body)
		}
		all[entry.Name()] = a
	}
	return all
}

func compressed(w *gzip.Writer, body []byte) []byte {
	var to bytes.Buffer
	w.Reset(&to)
	if _, err := w.Write(body); err != nil {
		panic(err) // cannot happen: a buffer accepts everything
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return to.Bytes()
}

// assetPath returns the URL of a file, which changes with the content.
func assetPath(name string) string {
	a, found := assets[name]
	if !found {
		panic("there is no file web/static/" + name)
	}
	if versioned.MatchString(name) {
		return "/static/" + name
	}
	return "/static/" + name + "?v=" + a.tag
}

// versioned matches the names of files that never change: they contain a version.
var versioned = regexp.MustCompile(`-\d+\.\d+\.\d+\.`)

// StaticRoutes returns the route of the files of web/static.
func (s *Site) StaticRoutes() []httpserver.Route {
	return []httpserver.Route{s.Get("/static/:name", identity.Public, sendAsset)}
}

func sendAsset(c *httpserver.Call) error {
	a, found := assets[c.Params("name")]
	if !found {
		return fault.New(fault.NotFound, "There is no such file.")
	}
	caching := "no-cache"
	if versioned.MatchString(c.Params("name")) || c.Query("v") == a.tag {
		caching = "public, max-age=31536000, immutable"
	}
	c.Set(fiber.HeaderCacheControl, caching)
	body, tag := a.body, a.tag
	if a.gzip != nil {
		c.Set(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
		if c.Ctx.Context().Request.Header.HasAcceptEncoding("gzip") {
			body, tag = a.gzip, a.tag+"-gzip" // other bytes, so another tag
		}
	}
	c.Set(fiber.HeaderETag, `"`+tag+`"`)
	if c.Get(fiber.HeaderIfNoneMatch) != "" && c.Fresh() { // Fresh ignores that there is no Last-Modified
		return c.SendStatus(http.StatusNotModified)
	}
	c.Set(fiber.HeaderContentType, a.kind)
	if tag != a.tag {
		c.Set(fiber.HeaderContentEncoding, "gzip")
	}
	return c.SendShared(body)
}
