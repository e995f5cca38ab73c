// Command compare makes the tables of docs/ALGORITHMS.md: what each algorithm
// lets in too much and refuses needlessly, which is the same on every machine,
// and, given a Redis, what it keeps and costs there.
//
//	go run ./test/compare -write docs/ALGORITHMS.md -redis redis://127.0.0.1:6379/0
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	document := flag.String("write", "", "the `file` whose tables are to be replaced; they are printed where it is empty")
	redisURL := flag.String("redis", "", "the `URL` of a Redis to measure on; its other keys are left alone, other work on it would be measured, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *document, *redisURL)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, document, redisURL string) error {
	tables := []table{decisions()}
	if redisURL != "" {
		measured, err := measure(ctx, redisURL, keysOnRedis)
		if err != nil {
			return err
		}
		tables = append(tables, measured)
	}
	if document == "" {
		for _, t := range tables {
			fmt.Println(t)
		}
		return nil
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if text, err = t.replaceIn(text); err != nil {
			return fmt.Errorf("%s: %w", document, err)
		}
	}
	return os.WriteFile(document, text, 0o644)
}
