package redislock

import "github.com/redis/rueidis"

var _ rueidis.Client
