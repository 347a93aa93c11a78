-- Renews a ticket of take.lua. ARGV: the ticket up to its flags, TTL in ms, mark.
-- Returns 0 if it is not there: use renew.lua.
local LOCK, TOKEN = unpack(KEYS)
local held = redis.pcall('GET', LOCK)
if type(held) ~= 'string' or string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', LOCK, ARGV[2])
redis.call('PEXPIRE', TOKEN, ARGV[2] + 3600 * 1000 * (ARGV[3] == '!' and 30 * 24 or 1))
return 1
