-- A cell is a hash of its version, whether it exists, and its value; one that does
-- not exist is forgotten after a while, since versions follow the clock.
--
-- KEYS: the cell, what became of this swap, followers. ARGV: version to replace,
-- whether it is to exist, value. Returns the new version, or -1.
local CELL, MEMO, FOLLOWERS = unpack(KEYS)
local MEMORY, SWAPS = 3600 * 1000, 90 * 1000
local call = redis.call
local function int(n) return string.format('%.0f', n) end
local known = call('GET', MEMO)
if known then return tonumber(known) end
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local cell = call('HMGET', CELL, 'version', 'followed')
local version = cell[1] or '0'
if version ~= ARGV[1] then
	-- A version that is still to come must not come true for this swap.
	if tonumber(ARGV[1]) > tonumber(version) then call('SET', MEMO, '-1', 'PX', SWAPS) end
	return -1
end
local new = math.max(tonumber(version) + 1, math.floor(now / 10))
if ARGV[2] == '1' then
	call('HSET', CELL, 'version', int(new), 'exists', '1', 'value', ARGV[3])
	call('PERSIST', CELL)
else
	call('HSET', CELL, 'version', int(new), 'exists', '0', 'value', '')
	call('PEXPIRE', CELL, int(MEMORY + math.max(0, new * 10 - now) / 1000))
end
call('SET', MEMO, int(new), 'PX', SWAPS)
if cell[2] and tonumber(cell[2]) > now then
	for _, f in ipairs(call('ZRANGEBYSCORE', FOLLOWERS, int(now), '+inf', 'LIMIT', 0, 1000)) do
		local channel, number = string.match(f, '^(%S+) (%d+)$')
		call('PUBLISH', 'interlock:' .. channel, 'f ' .. number)
	end
end
return new
