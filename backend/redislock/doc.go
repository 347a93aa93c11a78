// Package redislock runs Interlock on Redis.
package redislock
