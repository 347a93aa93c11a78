-- The common Leave of a lock that is in demand: one exclusive ticket hands over to
-- another. It comes before common.lua, the functions of which cost more than this.
-- ARGV: as for leave.lua.
local found = ARGV[4] == '0' and redis.call('HMGET', KEYS[3], 'state', ARGV[1])
if found and found[1] and found[2] then
	local capacity, used, waiting, last, offset, seq, next, keep, shown, followed, left, longest, mark, kind =
		struct.unpack(STATE, found[1])
	local _, units, token, _, _, _, _, flags, session = struct.unpack(RECORD, found[2])
	local clock = redis.call('TIME')
	local now = clock[1] * 1000000 + clock[2]
	local heir
	if waiting > 0 and token > 0 and units == capacity and session == ARGV[2] and not string.find(flags, 'f', 1, true)
		and last >= 0 and last < 2 ^ 51 and now < next and followed <= now and left <= now
		and (offset > 0 or math.floor(last / MINUTE) == math.floor(now / 10 / MINUTE)) then
		heir = redis.call('ZRANGE', KEYS[4], 0, 0)[1]
	end
	local record = heir and redis.call('HGET', KEYS[3], heir)
	if record then
		local number, wants, _, since, ttl, hold, client, flags, owner, rest = struct.unpack(RECORD, record)
		-- A Hold begins now, who comes next must notice a death in time, and others be
		-- kept out for long enough.
		if wants == capacity and hold == 0 and ttl >= longest and (kind == 'semaphore' or kind == 'barrier' or shown >= now + ttl) then
			redis.call('HDEL', KEYS[3], ARGV[1])
			redis.call('ZREM', KEYS[5], ARGV[1])
			redis.call('ZREM', KEYS[4], heir)
			mark = ARGV[3] == '1' and '=' or '!'
			if mark == '!' then flags = flags .. 'i' end
			last = after(last, now, offset)
			waiting = waiting - 1
			redis.call('HSET', KEYS[3],
				'state', struct.pack(STATE, capacity, used, waiting, last, offset, seq, next, keep, shown, followed, left, longest, mark, kind),
				heir, struct.pack(RECORD, number, wants, last, since, ttl, hold, client, flags, owner, rest))
			redis.call('PUBLISH', 'interlock:' .. string.match(owner, '^[^.]*'),
				news(heir, client, last, (mark == '!' and 'i' or '-') .. (waiting > 0 and 'w' or ''), ''))
			return { 1, 0, 0 }
		end
	end
end

