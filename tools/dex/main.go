// Command dex runs the OpenID provider dex for make test-openid, with its storage in
// memory and one connector that logs everybody in as a user of the group "authors". It is
// in a module of its own, so that none of it enters Stint's.
//
//	dex LISTEN CLIENT-ID CLIENT-SECRET REDIRECT-URL
//
// The issuer is http://LISTEN/dex.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/dexidp/dex/server"
	"github.com/dexidp/dex/storage"
	"github.com/dexidp/dex/storage/memory"
	"github.com/prometheus/client_golang/prometheus"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dex:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: dex LISTEN CLIENT-ID CLIENT-SECRET REDIRECT-URL")
	}
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	kept := storage.WithStaticClients(memory.New(logger), []storage.Client{
		{ID: args[1], Secret: args[2], RedirectURIs: []string{args[3]}, Name: "Stint"},
	})
	kept = storage.WithStaticConnectors(kept, []storage.Connector{{ID: "mock", Type: "mockCallback", Name: "Example"}})
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	s, err := server.NewServer(context.Background(), server.Config{
		Issuer: "http://" + l.Addr().String() + "/dex", Storage: kept, SkipApprovalScreen: true,
		Logger: logger, PrometheusRegistry: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	return http.Serve(l, s)
}
