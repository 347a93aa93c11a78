-- ARGV: the capacity, 0 to keep none, '' to go on with the waiters; the number after which they
-- are looked at. Returns a code, whether there is more to do, and the number after which to go on, or -1.
local DONE, MISMATCH = 1, -3
local PAGE = 10 * MOST -- waiters that one script looks at
local capacity, from = tonumber(ARGV[1]), tonumber(ARGV[2])
load()
sweep()
if (q.used > 0 or q.waiting > 0) and q.kind ~= 'semaphore' then
	grant()
	return { MISMATCH, finish(), -1 }
end
if capacity and capacity > 0 then
	q.kind, q.capacity, q.resized = 'semaphore', capacity, true
	q.last = after(q.last, now, q.offset) - 1 -- as if it had been used: HIGH is not looked at any more
	q.push, changed = true, true
elseif capacity and q.resized then
	local final = call('ZRANGE', ENDS, -1, -1, 'WITHSCORES')
	q.final, q.keep = tonumber(final[2] or 0), 0
	q.resized, q.push, changed = false, true, true
end

-- Who waits for more than there are would keep all others out for ever.
local waiters = call('ZRANGEBYSCORE', WAITING, '(' .. int(from), '+inf', 'LIMIT', 0, PAGE)
local next = -1
if #waiters > 0 then
	local found = call('HMGET', QUEUE, unpack(waiters))
	for i, id in ipairs(waiters) do
		if not found[i] then
			drop()
			next = -1
			break
		end
		if budget == 0 then -- sweep has used it
			if next < 0 then next = from end
			break
		end
		local r = parse(id, found[i])
		next = (i < #waiters or i == PAGE) and r.seq or -1
		if r.units > q.capacity then
			expel(r)
			budget = budget - 1
		end
	end
end
grant()
return { DONE, finish(), next }
