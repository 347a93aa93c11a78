// Multilock takes locks on three backends: all of them as one, and then one lock that a majority of the three
// decides. It has, line by line, what the documentations of Redisson (MultiLock, RedLock) and Curator (Multi
// Shared Lock) show; the names of theirs are in the comments.
//
//	go run ./multilock redis://host1 redis://host2 redis://host3
//	go run ./multilock sqlite:one.db sqlite:two.db sqlite:three.db
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/filelock"
	"github.com/interlock-go/interlock/backend/quorumlock"
	_ "github.com/interlock-go/interlock/backend/redislock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	_ "github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: multilock URL URL URL")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, urls []string) (err error) {
	var clients []*interlock.Client
	for _, url := range urls {
		c, err := interlock.Open(ctx, url)
		if err != nil {
			return err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	say := func(text string) work {
		return func(context.Context) error {
			fmt.Println(text)
			return nil
		}
	}
	if err := multiLock(ctx, clients[0], clients[1], clients[2], say("under all locks")); err != nil {
		return err
	}
	fmt.Println("a new quorum counts after its first TTL")
	return redLock(ctx, clients, 3*time.Second, say("under the lock of a majority"))
}

// work is what is done under a lock. Its context ends if the lock is lost.
type work func(context.Context) error

// multiLock is Redisson's getMultiLock over locks of three clients.
func multiLock(ctx context.Context, redisson1, redisson2, redisson3 *interlock.Client, do work) error {
	lock1 := redisson1.Mutex("lock1") // getLock
	lock2 := redisson2.Mutex("lock2")
	lock3 := redisson3.Mutex("lock3")
	all := interlock.All(lock1, lock2, lock3) // getMultiLock

	// lock(), and unlock() in a finally
	if err := all.Do(ctx, do); err != nil {
		return err
	}

	// tryLock(100, 10, SECONDS): false is ErrBusy, or the end of the wait. ExpiresAfter ends the lock by itself,
	// whatever becomes of this process; lock(10, SECONDS) has it alone.
	lease, err := all.With(interlock.Wait(100*time.Second), interlock.ExpiresAfter(10*time.Second)).Acquire(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(do(ctx), lease.Release()); err != nil {
		return err
	}

	// lockAsync(), tryLockAsync(100, 10, SECONDS) and whenComplete: a goroutine waits
	done := make(chan error, 1)
	go func() { done <- all.With(interlock.Wait(100*time.Second)).Do(ctx, do) }()
	return <-done
}

// redLock is Redisson's RedissonRedLock over locks of three clients. All of them have the one name, so that
// everybody sees who holds it. What multiLock does with its lock can be done with this one.
func redLock(ctx context.Context, clients []*interlock.Client, ttl time.Duration, do work) (err error) {
	quorum, err := quorumOf(ctx, clients, ttl) // new RedissonRedLock(lock1, lock2, lock3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, quorum.Close()) }()

	// tryLock(100, SECONDS), and unlock() in a finally
	return quorum.Mutex("lock", interlock.Wait(100*time.Second)).Do(ctx, do)
}

// quorumOf makes a client of several. Close it before these, which it leaves open.
func quorumOf(ctx context.Context, clients []*interlock.Client, ttl time.Duration) (*interlock.Client, error) {
	var members []driver.Driver
	for _, c := range clients {
		members = append(members, c.Driver())
	}
	d, err := quorumlock.New(members...)
	if err != nil {
		return nil, err
	}
	return interlock.New(ctx, d, interlock.TTL(ttl))
}

// multiSharedLock is Curator's InterProcessMultiLock of several paths, or of several locks.
func multiSharedLock(ctx context.Context, client *interlock.Client, paths []string, do work) error {
	var locks []*interlock.Lock
	for _, path := range paths {
		locks = append(locks, client.Mutex(path)) // new InterProcessMutex(client, path)
	}
	all := interlock.All(locks...) // new InterProcessMultiLock(locks)

	// acquire(5, SECONDS), whose false is ErrBusy, and release() in a finally
	return all.With(interlock.Wait(5*time.Second)).Do(ctx, do)
}
