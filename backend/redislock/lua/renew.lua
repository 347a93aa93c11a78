-- Extends tickets, looks at others, and sees to the queue. ARGV: session, TTL, how
-- many of the IDs are to be extended, IDs. Returns for each ID what it is, its
-- token, what there is to tell (1 another waits behind it, 2 it inherits, 4 it was
-- asked to go), when to look again (see look), or how long it stands if it has a
-- fixed end, and its Hold; then whether there is more to do, and the time.
local GONE, WAITS, HELD, FIXED, EVICTED = 0, 1, 2, 3, 4
local session, ttl, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ids = {}
for i = 4, #ARGV do ids[#ids + 1] = ARGV[i] end

load(ids[1])
-- A first write that needs no memory: with that the server lets the others through
-- when its memory is full, and nobody loses what he has.
if count > 0 and q.keep > now then stay(int(q.keep / 1000 + 1)) end
sweep()
local tickets = {}
if q.lone then
	if q.lone.session == session or is(q.lone, 'f') then tickets[q.lone.id] = q.lone end
elseif q.stored and #ids > 0 then
	local found = call('HMGET', QUEUE, unpack(ids))
	for i, id in ipairs(ids) do
		local r = found[i] and parse(id, found[i])
		local at = r and call('ZSCORE', ENDS, id)
		if r and not at then
			drop()
			tickets = {}
			break
		end
		if at and tonumber(at) > now and (r.session == session or is(r, 'f')) then tickets[id] = r end
	end
end
for i = 1, math.min(count, #ids) do
	local r = tickets[ids[i]]
	if r and not is(r, 'f') and not is(r, 'e') then extend(r, ttl) end
end
grant()
if q.dropped then tickets = {} end
for _, w in ipairs(winners) do
	if tickets[w.id] then tickets[w.id] = w end
end
local answer = {}
for _, id in ipairs(ids) do
	local r = tickets[id]
	local state, token, tell, again, hold = GONE, 0, 0, -1, 0
	if r then
		token, hold = r.token, r.hold
		if is(r, 'f') then state, again = FIXED, left(r)
		elseif token > 0 then state = HELD
		else state, again = WAITS, look(id) end
		if is(r, 'e') then state = EVICTED end
		if token > 0 and q.waiting > 0 then tell = 1 end
		if is(r, 'i') then tell = tell + 2 end
		if is(r, 'r') then tell = tell + 4 end
	end
	for _, n in ipairs({ state, token, tell, again, hold }) do answer[#answer + 1] = n end
end
answer[#answer + 1] = finish()
answer[#answer + 1] = now
return answer
