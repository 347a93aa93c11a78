// Flashsale sells a small stock to many buyers, with and without locks:
//
//	go run ./cmd/flashsale
//
// `interlock demo flash-sale` has more flags.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"

	"github.com/interlock-go/interlock/examples/flashsale"
)

func main() {
	flashsale.WorkerMain()

	var c flashsale.Config
	flag.IntVar(&c.Stock, "stock", 100, "pieces to sell")
	flag.IntVar(&c.Buyers, "buyers", 1000, "buyers, each of whom wants one")
	flag.IntVar(&c.Workers, "workers", 4, "processes that sell")
	flag.Func("url", "one more place of the locks (default a SQLite file)", func(s string) error { c.URLs = append(c.URLs, s); return nil })
	flag.StringVar(&c.Database, "database", "", "postgres:// or mysql:// URL of the shop's database (default a SQLite file)")
	flag.Func("strategy", "one more strategy to use (default all)", func(s string) error { c.Strategies = append(c.Strategies, s); return nil })
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c.Progress = func(p flashsale.Progress) {
		if p.Done {
			log.Printf("%d/%d %s: %d orders", p.Number, p.Of, p.Strategy, p.Orders)
		}
	}
	results, err := flashsale.Run(ctx, c)
	flashsale.WriteTable(os.Stdout, results)
	if err == nil {
		err = flashsale.Check(results)
	}
	if err != nil {
		log.Fatal(err)
	}
}
