// Package frameworks has the examples of docs/CLIENT.md and docs/LIBRARY.md for frameworks on net/http. It is a
// module of its own, so that none of them enters the module of Stint;
// make test-clients runs its tests.
package frameworks

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
)

// guard is client.Guard, which asks a server, or limit.Guard, which counts by itself.
type guard interface {
	Handler(next http.Handler) http.Handler
}

// netHTTP protects a mux of net/http.
func netHTTP(guard guard, welcome http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /welcome", welcome)
	return guard.Handler(mux)
}

// chiRouter protects a router of chi.
func chiRouter(guard guard, welcome http.HandlerFunc) http.Handler {
	router := chi.NewRouter()
	router.Use(guard.Handler)
	router.Get("/welcome", welcome)
	return router
}

// echoServer protects a server of echo.
func echoServer(guard guard, welcome http.HandlerFunc) http.Handler {
	e := echo.New()
	e.Use(echo.WrapMiddleware(guard.Handler))
	e.GET("/welcome", echo.WrapHandler(welcome))
	return e
}

// ginEngine protects an engine of gin.
func ginEngine(guard guard, welcome http.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(throttle(guard.Handler))
	engine.GET("/welcome", gin.WrapF(welcome))
	return engine
}

func throttle(protect func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed, c.Request = true, r // which has the decision in its context
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}
