-- The short way to an exclusive lock that nobody has and nobody waits for: LOCK
-- holds the ticket and ends with it. TOKEN holds the last token behind a mark:
-- '=' its holder left cleanly, '!' it did not, or holds and wants its successor to
-- know if it does not; '?' nobody wants to know. A 'q' before it: there is a queue.
-- An 'r' before it: tokens were raised, behind them is the offset, or permits were set, and join.lua
-- grants, as it does for what cannot be read.
--
-- ARGV: the ticket, TTL in ms, mark.
-- Returns the token, negative if the lock is inherited, or 0: use join.lua.
local LOCK, TOKEN, QUEUE, HIGH = unpack(KEYS)
local MINUTE = 6e6 -- as in format.lua
local call = redis.call
local MEMORY = 3600 * 1000 * (ARGV[3] == '!' and 30 * 24 or 1) -- as in common.lua
local clock = call('TIME')
if not call('SET', LOCK, ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
local token = clock[1] * 100000 + math.floor(clock[2] / 10)
local last = redis.pcall('SET', TOKEN, ARGV[3] .. string.format('%d', token), 'PX', ARGV[2] + MEMORY, 'GET')
if type(last) == 'table' then
	call('DEL', LOCK)
	return 0
end
local queued, mark, number = string.match(last or '=0', '^(q?)([=!?])(%d+)$')
number = tonumber(number)
if not number or number >= 2 ^ 51 then
	call('SET', TOKEN, last)
	call('DEL', LOCK)
	return 0
end
local minute = math.floor(token / MINUTE)
if HIGH and math.floor(number / MINUTE) ~= minute then
	local high = redis.pcall('GET', HIGH) or '0'
	high = type(high) == 'string' and tonumber(string.match(high, '^%d+$'))
	if not last and (not high or high > token + MINUTE) then
		call('DEL', TOKEN, LOCK)
		return 0
	elseif high and high < (minute + 1) * MINUTE then
		call('SET', HIGH, string.format('%d', (minute + 1) * MINUTE), 'PX', 30 * 24 * 3600 * 1000)
	end
end
if not last then return token end
local queue = queued == 'q' and call('PTTL', QUEUE) or -2
local ahead = number - token
if queue ~= -2 or ahead >= 0 then
	call('SET', TOKEN, last, 'PX', string.format('%d', math.max(queue, 0) + math.max(ahead, 0) / 100 + MEMORY))
	call('DEL', LOCK)
	return 0
elseif ARGV[3] == '!' and mark ~= '=' then
	call('SET', LOCK, string.gsub(ARGV[1], '^%S+ %S+ %S+ %S+', '%0i'), 'KEEPTTL')
	return -token
end
return token
