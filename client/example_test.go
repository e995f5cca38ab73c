package client_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/stint-dev/stint/client"
)

func ExampleClient_Check() {
	stint, err := client.New(os.Getenv("STINT_CHECK_URL"))
	if err != nil {
		log.Fatal(err)
	}
	key := "user:" + rand.Text() // the user who sent the request
	for range 4 {
		d, err := stint.Check(context.Background(), client.Check{Key: key})
		switch {
		case err != nil:
			log.Fatal(err) // there is no decision
		case d.Allowed:
			fmt.Println("allowed")
		default:
			fmt.Println(d.Outcome, "by", d.Rule, "for more than 23 hours:", d.RetryAfter > 23*time.Hour)
		}
	}
	// Output:
	// allowed
	// allowed
	// allowed
	// limited by 3/1d for more than 23 hours: true
}

func ExampleClient_Do() {
	stint, err := client.New(os.Getenv("STINT_CHECK_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer stint.Close()
	for page := 1; page <= 3; page++ {
		reservation := client.Check{Key: "host:books.example.com", MaxWait: time.Minute}
		err := stint.Do(context.Background(), reservation, func(ctx context.Context) error {
			fmt.Println("fetching page", page)
			return nil
		})
		var refused *client.Refused
		switch {
		case errors.As(err, &refused):
			fmt.Println("not within a minute:", refused)
		case err != nil:
			log.Fatal(err)
		}
	}
	// Output:
	// fetching page 1
	// fetching page 2
	// fetching page 3
}

func ExampleTransport() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "page ", r.URL.Query().Get("page"))
	}))
	defer api.Close() // somebody else's

	stint, err := client.New(os.Getenv("STINT_CHECK_URL"))
	if err != nil {
		log.Fatal(err)
	}
	polite := &http.Client{Transport: &client.Transport{Client: stint, MaxWait: time.Minute}}
	for page := range 3 {
		response, err := polite.Get(fmt.Sprintf("%s/?page=%d", api.URL, page))
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Println(string(text), err)
	}
	// Output:
	// page 0 <nil>
	// page 1 <nil>
	// page 2 <nil>
}

func ExampleGuard() {
	stint, err := client.New(os.Getenv("STINT_CHECK_URL"), client.WithOutage(client.FailOpen), client.WithSource("shop"))
	if err != nil {
		log.Fatal(err)
	}
	guard := &client.Guard{
		Client: stint,
		Policy: "visitors",
		OnError: func(r *http.Request, err error) {
			log.Printf("%s went without a decision: %v", r.URL.Path, err)
		},
	}
	shop := httptest.NewServer(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "welcome")
	})))
	defer shop.Close()

	for status := http.StatusOK; status == http.StatusOK; {
		response, err := http.Get(shop.URL)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		if status = response.StatusCode; status != http.StatusOK {
			fmt.Println(response.Status, response.Header.Get("Content-Type"))
			fmt.Println(response.Header.Get("RateLimit-Policy"), response.Header.Get("Retry-After") != "")
		}
	}
	// Output:
	// 429 Too Many Requests application/problem+json
	// "3/1d";q=3;w=86400 true
}

func ExampleClient_CheckAll() {
	stint, err := client.New(os.Getenv("STINT_CHECK_URL"))
	if err != nil {
		log.Fatal(err)
	}
	user, team := "user:"+rand.Text(), "user:"+rand.Text()
	for range 2 {
		d, err := stint.CheckAll(context.Background(), client.CombinedCheck{
			Keys: []client.CombinedKey{{Key: user}, {Key: team, Cost: 2}},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Outcome, "user:", d.Decisions[0].Allowed, "team:", d.Decisions[1].Allowed)
	}
	// Output:
	// allowed user: true team: true
	// limited user: true team: false
}

func ExampleClient_Batch() {
	stint, err := client.New(os.Getenv("STINT_CHECK_URL"))
	if err != nil {
		log.Fatal(err)
	}
	items, err := stint.Batch(context.Background(), []client.Check{
		{Key: "user:" + rand.Text()},
		{Key: "user:" + rand.Text(), Cost: 4},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, item := range items {
		var problem *client.Problem
		if errors.As(item.Err, &problem) {
			fmt.Println("the question was wrong:", problem.Field)
			continue
		}
		fmt.Println(item.Decision.Outcome)
	}
	// Output:
	// allowed
	// the question was wrong: cost
}

func ExampleClient_Report() {
	stint, err := client.New(os.Getenv("STINT_CHECK_URL"))
	if err != nil {
		log.Fatal(err)
	}
	reported, err := stint.Report(context.Background(), client.Report{
		Key: "ip:203.0.113.7", Outcome: "not_found", Request: client.Request{Path: "/old", Method: "GET"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("refused from now on:", reported.Refuses())
	fmt.Println(reported.Note)
	// Output:
	// refused from now on: false
	// Not counted: no policy counts not_found.
}

func ExampleClient_Wait() {
	stint, err := client.New(os.Getenv("STINT_CHECK_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer stint.Close() // cancels reservations that nobody waits for any more
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	key := "far:" + rand.Text() // one an hour
	for range 2 {
		_, err := stint.Wait(ctx, client.Check{Key: key})
		var refused *client.Refused
		switch {
		case errors.As(err, &refused):
			fmt.Println("it would come in more than 50 minutes:", refused.Decision.RetryAfter > 50*time.Minute)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("my reservation has come")
		}
	}
	// Output:
	// my reservation has come
	// it would come in more than 50 minutes: true
}

func ExampleWithOutage() {
	stint, err := client.New("http://127.0.0.1:1", client.WithOutage(client.FailOpen)) // no server listens there
	if err != nil {
		log.Fatal(err)
	}
	d, err := stint.Check(context.Background(), client.Check{Key: "ip:203.0.113.7"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Outcome, "degraded:", d.Degraded, "by the client:", d.Outage != nil)
	// Output: allowed degraded: true by the client: true
}
