-- KEYS: the cell, followers if one is noted. ARGV: who follows, until how long from now in us, how much of the
-- value is read. Returns its version, whether it exists, its value.
local CELL, FOLLOWERS = unpack(KEYS)
local call = redis.call
local function int(n) return string.format('%.0f', n) end
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local cell = call('HMGET', CELL, 'version', 'exists', 'value', 'followed')
local stop = now + tonumber(ARGV[2])
if FOLLOWERS then
	call('ZREMRANGEBYSCORE', FOLLOWERS, '-inf', int(now))
	call('ZADD', FOLLOWERS, int(stop), ARGV[1])
	call('PEXPIREAT', FOLLOWERS, int(stop / 1000 + 1))
	if stop > tonumber(cell[4] or '0') then
		call('HSET', CELL, 'followed', int(stop))
		-- A cell that was never set goes away with its followers.
		if not cell[1] then call('PEXPIREAT', CELL, int(stop / 1000 + 1)) end
	end
end
return { cell[1] or '0', cell[2] or '0', string.sub(cell[3] or '', 1, tonumber(ARGV[3])) }
