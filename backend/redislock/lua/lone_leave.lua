-- Ends a ticket of lone_join.lua. ARGV: its ID, session, what TOKEN is to hold, if that is to be
-- written: only then it is one of the keys. Returns 0 if it is not there: use leave.lua.
local held = redis.pcall('GET', KEYS[1])
local head = 'interlock ' .. ARGV[1] .. ' ' .. ARGV[2] .. ' '
if type(held) ~= 'string' or string.find(held, head, 1, true) ~= 1 then return 0 end
redis.call('DEL', KEYS[1])
if ARGV[3] then
	redis.call('SET', KEYS[2], ARGV[3], 'PX', 3600 * 1000 * (string.sub(ARGV[3], 1, 1) == '!' and 30 * 24 or 1))
end
return 1
