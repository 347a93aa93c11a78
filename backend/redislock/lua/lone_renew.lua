-- Renews a ticket of lone_join.lua. ARGV: its ID, session, TTL in ms, mark.
-- Returns 0 if it is not there: use renew.lua.
local LOCK, TOKEN = unpack(KEYS)
local held = redis.pcall('GET', LOCK)
local head = 'interlock ' .. ARGV[1] .. ' ' .. ARGV[2] .. ' '
if type(held) ~= 'string' or string.find(held, head, 1, true) ~= 1 then return 0 end
redis.call('PEXPIRE', LOCK, ARGV[3])
redis.call('PEXPIRE', TOKEN, ARGV[3] + 3600 * 1000 * (ARGV[4] == '!' and 30 * 24 or 1))
return 1
