-- The common Join of a lock that is in demand: somebody waits already, so the ticket
-- goes to the end of the line and nobody need be told. It comes before common.lua,
-- the functions of which cost more than this. ARGV: as for join.lua.
local found = ARGV[11] == '0' and ARGV[12] == '0' and redis.call('HMGET', KEYS[3], 'state', ARGV[1])
if found and found[1] and not found[2] then
	local capacity, used, waiting, last, offset, seq, next, keep, shown, followed, left, longest, mark, kind =
		struct.unpack(STATE, found[1])
	local clock = redis.call('TIME')
	local now = clock[1] * 1000000 + clock[2]
	local ttl = tonumber(ARGV[5])
	if waiting > 0 and used > 0 and kind == ARGV[2] and capacity == tonumber(ARGV[4])
		and now < next and followed <= now and left <= now and now + ttl + 3600e6 <= keep
		and after(last, now, offset) + waiting + 1 < 2 ^ 51 then
		seq = seq + 1
		redis.call('ZADD', KEYS[4], string.format('%d', seq), ARGV[1])
		redis.call('ZADD', KEYS[5], string.format('%d', now + ttl), ARGV[1])
		redis.call('HSET', KEYS[3],
			'state', struct.pack(STATE, capacity, used, waiting + 1, last, offset, seq, math.min(next, now + ttl),
				keep, shown, followed, left, math.max(longest, ttl), mark, kind),
			ARGV[1], struct.pack(RECORD, seq, tonumber(ARGV[3]), 0, now, ttl, tonumber(ARGV[6]),
				tonumber(ARGV[9]), ARGV[7], ARGV[8], ARGV[10]))
		return { 2, 0, now, -1, 0, -1 }
	end
end

