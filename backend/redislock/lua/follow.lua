-- ARGV: who follows ('' nobody: only read), until how long from now.
-- Returns the time, the queue, its records, the ends of its tickets, and whether it was resized.
load()
if ARGV[1] ~= '' then
	local old = call('ZRANGEBYSCORE', FOLLOWERS, '-inf', int(now), 'LIMIT', 0, MOST)
	if #old > 0 then call('ZREM', FOLLOWERS, unpack(old)) end
	local stop = now + tonumber(ARGV[2])
	call('ZADD', FOLLOWERS, int(stop), ARGV[1])
	if stop > q.followed then
		call('PEXPIREAT', FOLLOWERS, int(stop / 1000 + 1))
		q.followed = stop
		store()
	end
end
if q.lone then
	return { int(now), q.kind, int(q.capacity), { q.lone.id, record(q.lone) }, { q.lone.id, int(q.lone.stop) }, 0 }
end
local resized = q.resized and 1 or 0
if q.used == 0 and q.waiting == 0 then return { int(now), q.kind, int(q.capacity), {}, {}, resized } end
return { int(now), q.kind, int(q.capacity), call('HGETALL', QUEUE), call('ZRANGE', ENDS, 0, -1, 'WITHSCORES'), resized }
