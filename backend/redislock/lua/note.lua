-- Writes a note that replicas are to confirm, if the ticket is held here: the master
-- that granted it may not be the master any more. KEYS: the lock, its queue, the note.
-- ARGV: id.
local held = redis.pcall('GET', KEYS[1])
if type(held) ~= 'string' or not string.find(held, '^interlock ' .. ARGV[1]) then
	local record = redis.call('HGET', KEYS[2], ARGV[1])
	if not record then return 0 end
	local _, _, token = struct.unpack(RECORD, record)
	if token == 0 then return 0 end
end
redis.call('SET', KEYS[3], '', 'PX', 1000)
return 1
