-- Ends a ticket of take.lua. ARGV: the ticket up to its flags, what TOKEN is to
-- hold or ''. Returns 0 if it is not there: use leave.lua.
local LOCK, TOKEN = unpack(KEYS)
local held = redis.pcall('GET', LOCK)
if type(held) ~= 'string' or string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', LOCK)
if ARGV[2] ~= '' then
	redis.call('SET', TOKEN, ARGV[2], 'PX', 3600 * 1000 * (string.sub(ARGV[2], 1, 1) == '!' and 30 * 24 or 1))
end
return 1
