-- ARGV: id, kind, units, capacity, TTL, Hold, flags, session, number, the rest of
-- the record, NoWait, Retry. Returns a code, whether there is more to do, the time;
-- of a waiting ticket when to look again; of a held one its token, whether it
-- inherits, how long it stands if nothing can extend it, and whether its end is
-- fixed; whether the ticket stood before.
local id, kind, units, capacity, ttl, hold =
	ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local nowait = ARGV[11] == '1'
local HELD, WAITS, BUSY, GONE, MISMATCH, USEDUP, BACK = 1, 2, -1, -2, -3, -4, -6

local r = load(id)
if sweep(id) then r = nil end
if budget < MOST then grant() end
if q.dropped then r = nil end

local found = 0
local function reply(code, a, b, c)
	return { code, finish(), now, a or 0, b or 0, c or -1, r and is(r, 'f') and 1 or 0, found }
end

local again -- known without a look
local function standing()
	if r.token == 0 then return reply(WAITS, again or look(id)) end
	local bounded = is(r, 'f') or is(r, 'e')
	return reply(HELD, r.token, is(r, 'i') and 1 or 0, bounded and left(r) or -1)
end

if q.left > now then
	local refused = call('ZSCORE', LEFT, id)
	if refused and tonumber(refused) > now then return reply(GONE) end
end
if not r and (q.used > 0 or q.waiting > 0 or q.resized) and (q.kind ~= kind or q.capacity ~= capacity) then return reply(MISMATCH) end
if r then
	r = granted(r)
	if r.session ~= ARGV[8] and not is(r, 'f') or left(r) <= 0 then return reply(GONE) end
	found = 1
	if nowait and r.token == 0 then return reply(BUSY) end -- its client leaves
	if not is(r, 'f') and not is(r, 'e') then extend(r, ttl) end
	return standing()
end
if q.last ~= q.last then return reply(BACK) end
if q.used == 0 and q.waiting == 0 then q.kind, q.capacity = kind, capacity end
local fits = q.waiting == 0 and units <= q.capacity - q.used and clear(now + (hold > 0 and hold or ttl))
if nowait and not fits then return reply(BUSY) end
if after(q.last, now, q.offset) + q.waiting + 1 >= 2 ^ 51 then return reply(USEDUP) end

q.seq = q.seq + 1
q.longest = math.max(q.longest, ttl)
r = {
	id = id, seq = q.seq, units = units, token = 0, flags = ARGV[7], since = now,
	ttl = ttl, hold = hold, session = ARGV[8], number = tonumber(ARGV[9]), rest = ARGV[10],
}
if fits then
	if hold == 0 then ends(id, now + ttl) end
	admit(r)
else
	ends(id, now + ttl)
	wait(r)
	put(r)
	if q.waiting == 1 then want() else again = -1 end
end
return standing()
