package goredis_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/redislock/goredis"
)

func ExampleNew() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}) // that of the program
	defer rdb.Close()

	d, err := goredis.New(ctx, rdb)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := interlock.New(ctx, d)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Mutex("stock/42").Do(ctx, func(ctx context.Context) error {
		log.Print("sold one")
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}
