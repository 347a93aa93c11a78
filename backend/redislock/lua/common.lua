-- What the scripts about a queue share. Each begins with this text, works on q,
-- and ends with finish().
--
-- A queue is the hash QUEUE: under 'state' what is true of all, and under its ID
-- a record of each ticket. WAITING orders those that wait by their number, ENDS
-- all by the time at which they end if nobody renews them. A queue of which
-- nothing must be remembered but the last token is not there at all; one with a
-- single exclusive ticket may be lone (see lone_join.lua), until something else is to
-- be known of it. A queue that was resized stays while it is empty, without an expiry.
--
-- Times are microseconds of the server's clock.

local LOCK, TOKEN, QUEUE, WAITING, ENDS, LEFT, FOLLOWERS, HIGH = unpack(KEYS)

local MARKER = 'interlock' -- in LOCK while somebody holds: other libraries stay out
local FOREVER = 9e15
local UNREADABLE = 0 / 0 -- instead of a token; it is no number, so it is not what it is
local MEMORY = 3600 * 1e6  -- how long the last token is kept, and all of a queue that is left to itself
local LONG = 30 * 24 * MEMORY -- how long it is known that a holder did not leave cleanly
local MOST = 100           -- tickets that one script grants or removes

local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local budget = MOST
local changed = false
local records = {}  -- of tickets, to be written by finish
local messages = {} -- channel, text, …: to be sent by finish
local winners = {}
local q

local function int(n) return string.format('%d', n) end

-- A record: number, units, token (0 while waiting), time of the Join, TTL of the
-- session, Hold, the client's number, flags, session, and what only clients read.
-- Flags: h joined with Hold, f has a fixed end, o wants to know whether it inherits,
-- i inherits, r was asked to go, e is evicted.
local function parse(id, packed)
	local seq, units, token, since, ttl, hold, number, flags, session, rest = struct.unpack(RECORD, packed)
	return {
		id = id, seq = seq, units = units, token = token, since = since, ttl = ttl, hold = hold,
		number = number, flags = flags, session = session, rest = rest,
	}
end

local function record(r)
	return struct.pack(RECORD, r.seq, r.units, r.token, r.since, r.ttl, r.hold, r.number, r.flags, r.session, r.rest)
end

local function put(r)
	records[r.id] = r
	changed = true
end

local function is(r, flag) return string.find(r.flags, flag, 1, true) end

local function flag(r, f)
	if not is(r, f) then r.flags = r.flags .. f end
end

-- get reads a key; '' is what another type of key has.
local function get(key)
	local text = redis.pcall('GET', key)
	if type(text) ~= 'table' then return text end
	if string.find(text.err, 'WRONGTYPE', 1, true) then return '' end
	return call('GET', key)
end

-- What stands behind the kind of a queue that the scripts of the common ways leave alone: it was
-- resized, or more is held than its capacity since it was.
local RESIZED, OVER = ', resized', ', over'

local function token(text)
	local n = tonumber(string.match(text or '', '^%d+$'))
	return n and n < 2 ^ 51 and n or UNREADABLE
end

-- lone is the queue of a ticket that lone_join.lua granted, or of none.
local function lone()
	q = {
		kind = '-', capacity = 0, used = 0, waiting = 0, last = 0, offset = 0, seq = 0, mark = '=',
		next = FOREVER, keep = 0, shown = 0, followed = 0, left = 0, longest = 0,
	}
	call('DEL', WAITING, ENDS) -- of a queue that was lost
	local known = get(TOKEN)
	if known then
		local mark, last, offset = string.match(known, '^q?([=!?])(%d+)$')
		if not mark then mark, last, offset = string.match(known, '^r([=!?])(%d+)%+(%d+)$') end
		q.mark, q.last, q.offset = mark or '?', token(last), tonumber(offset) or 0
	elseif HIGH then
		local high = token(get(HIGH) or '0')
		if not (high <= now / 10 + MINUTE) then q.last = high end -- the clock was set back
	end
	local holder = redis.pcall('GET', LOCK)
	if type(holder) ~= 'string' then return end
	if holder == MARKER then q.orphan = true end -- somebody holds of whom nothing is known
	local id, session, flags, number, kind, capacity, ttl, hold, rest =
		string.match(holder, '^interlock (%S+) (%S+) (%S+) (%d+) (%S+) (%d+) (%d+) (%d+)(.*)$')
	if not id then return end
	q.kind, q.capacity, q.used, q.seq = kind, tonumber(capacity), tonumber(capacity), 1
	local last = q.last > 0 and q.last or math.floor(now / 10) -- TOKEN was lost, or cannot be read
	if q.last == 0 then q.last = last end
	q.lone = {
		id = id, seq = 1, units = q.capacity, token = last, flags = flags, since = last * 10,
		ttl = tonumber(ttl), hold = tonumber(hold), session = session, number = tonumber(number), rest = rest,
	}
	if q.lone.hold > 0 then flag(q.lone, 'hf') end
	local left = call('PTTL', LOCK)
	local read = call('TIME') -- after it: until 7.2 time goes on while a script runs, and left was less than this
	q.lone.stop = left < 0 and now + q.lone.ttl or read[1] * 1000000 + read[2] + (left + 1) * 1000
	q.next = q.lone.stop
end

-- load reads the queue, and the ticket.
local function load(id)
	local found = call('HMGET', QUEUE, 'state', id or 'state')
	if not found[1] then
		lone()
		if q.lone and q.lone.id == id then return q.lone end
		return nil
	end
	local capacity, used, waiting, last, offset, seq, next, keep, shown, followed, left, longest, mark, kind =
		struct.unpack(STATE, found[1])
	if not (last >= 0 and last < 2 ^ 51) then last = UNREADABLE end
	local base, suffix = string.match(kind, '^(%a+)(, %a+)$')
	q = {
		kind = base or kind, resized = suffix == RESIZED, capacity = capacity, used = used, waiting = waiting, last = last, offset = offset, seq = seq, mark = mark,
		next = next, keep = keep, shown = shown, followed = followed, left = left, longest = longest, stored = true,
	}
	if id and found[2] then return parse(id, found[2]) end
	return nil
end

local function ends(id, at)
	if q.used == 0 and q.waiting == 0 then q.newends = true end
	call('ZADD', ENDS, int(at), id)
	q.next = math.min(q.next, at)
	q.final = math.max(q.final or 0, at)
end

local function wait(r)
	if q.waiting == 0 then q.newwaiting = true end
	call('ZADD', WAITING, int(r.seq), r.id)
	q.waiting = q.waiting + 1
end

-- bury has a Join of this ID refused that is still to arrive.
local function bury(id, span)
	if not q.pruned then
		q.pruned = true
		local old = call('ZRANGEBYSCORE', LEFT, '-inf', int(now), 'LIMIT', 0, 2 * MOST)
		if #old > 0 then call('ZREM', LEFT, unpack(old)) end
	end
	call('ZADD', LEFT, 'GT', int(now + span), id)
	q.left = math.max(q.left, now + span)
	call('PEXPIREAT', LEFT, int(q.left / 1000 + 1))
	changed = true
end

local function remove(r, clean)
	if r.token > 0 then
		-- no other is held beside it
		if r.units >= q.capacity and r.units == q.used then q.mark = clean and '=' or '!' end
		q.used = q.used - r.units
	else
		if call('ZRANGE', WAITING, 0, 0)[1] == r.id then q.headless = true end
		call('ZREM', WAITING, r.id)
		q.waiting = q.waiting - 1
	end
	if r == q.lone then
		q.lone = nil
		call('DEL', LOCK)
	else
		records[r.id] = nil
		call('HDEL', QUEUE, r.id)
		call('ZREM', ENDS, r.id)
	end
	changed = true
end

-- drop gives up a queue of which the server has lost a part, such as a key that it
-- has evicted. LOCK stays, and keeps everybody out until who held is over.
local function drop()
	local last, offset = q.last, q.offset
	local kind, capacity, resized = q.kind, q.capacity, q.resized
	call('DEL', QUEUE)
	records, winners = {}, {}
	lone()
	if resized and not q.lone then q.kind, q.capacity, q.resized = kind, capacity, true end
	q.last, q.offset, q.mark, q.dropped = math.max(last, q.last), math.max(q.offset, offset), '!', true
	changed = true
end

-- sweep removes tickets whose time is over, and reports whether id was one.
local function sweep(id)
	if now < q.next or not q.stored then return false end
	local dead = call('ZRANGEBYSCORE', ENDS, '-inf', int(now), 'LIMIT', 0, budget)
	local hit = false
	if #dead > 0 then
		local found = call('HMGET', QUEUE, unpack(dead))
		for i in ipairs(dead) do
			if not found[i] then
				drop()
				return true
			end
		end
		for i, d in ipairs(dead) do
			local r = parse(d, found[i])
			-- Who was kept without Hold was done, and only kept others out.
			remove(r, is(r, 'f') and not is(r, 'h'))
			bury(d, r.ttl)
			hit = hit or d == id
		end
		budget = budget - #dead
	end
	if call('ZCARD', ENDS) ~= call('HLEN', QUEUE) - 1 then
		drop()
		return true
	end
	local first = call('ZRANGE', ENDS, 0, 0, 'WITHSCORES')
	q.next = first[2] and tonumber(first[2]) or FOREVER
	changed = true
	return hit
end

local PUBLIC = { mutex = true, rwmutex = true, election = true }

-- clear reports whether no other library has the lock, and keeps them out until
-- at least stop.
local function clear(stop)
	if not PUBLIC[q.kind] or q.shown >= stop then return true end
	if q.shown <= now then
		local other = redis.pcall('GET', LOCK)
		if other and (other ~= MARKER or q.orphan) then
			q.blocked = true
			return false
		end
	end
	q.shown = now + (stop - now) * 1.5
	call('SET', LOCK, MARKER, 'PX', int((q.shown - now) / 1000 + 1))
	return true
end

-- extend has the ticket stand for one TTL from now.
local function extend(r, ttl)
	if r == q.lone then
		r.stop = now + ttl
		call('PEXPIRE', LOCK, int(ttl / 1000 + 2))
		call('PEXPIRE', TOKEN, int((ttl + (is(r, 'o') and LONG or MEMORY)) / 1000))
	else
		ends(r.id, now + ttl)
		if r.token > 0 then clear(now + ttl) end
		changed = true
	end
end

-- ahead is by how much the tokens have left the clock behind, since it was set back.
local function ahead() return math.max(0, (q.last - q.offset) * 10 - now) end

-- rise keeps HIGH above the next token.
local function rise()
	local minute = math.floor(now / 10 / MINUTE)
	if not HIGH or q.offset > 0 or math.floor(q.last / MINUTE) == minute then return end
	local high = math.max(q.last + 1, (minute + 1) * MINUTE)
	if high > token(get(HIGH) or '0') then
		call('SET', HIGH, int(high), 'PX', int((LONG + ahead()) / 1000))
	end
end

-- admit lets the ticket hold.
local function admit(r)
	rise()
	q.last = after(q.last, now, q.offset)
	r.token = q.last
	if q.mark == '!' or q.mark == '?' and is(r, 'o') then flag(r, 'i') end
	if r.hold > 0 then
		flag(r, 'f')
		ends(r.id, now + r.hold)
	end
	q.used = q.used + r.units
	put(r)
end

local function send(session, text)
	messages[#messages + 1] = 'interlock:' .. string.match(session, '^[^.]*')
	messages[#messages + 1] = text
end

-- expel takes a ticket out that its client has not given up.
local function expel(r)
	remove(r, false)
	bury(r.id, r.ttl)
	send(r.session, 'x ' .. int(r.number))
end

-- grant lets in whoever fits, in order; nobody as long as tokens could go back.
local function grant()
	while q.last == q.last and q.waiting > 0 and q.used < q.capacity and budget > 0 do
		local id = call('ZRANGE', WAITING, 0, 0)[1]
		local found = id and (records[id] or call('HGET', QUEUE, id))
		if not found then return drop() end
		local r = records[id] or parse(id, found)
		if r.units > q.capacity then -- it never fits any more
			expel(r)
		else
			if r.units > q.capacity - q.used then break end
			if not clear(now + (r.hold > 0 and r.hold or r.ttl)) then break end
			call('ZREM', WAITING, id)
			q.waiting = q.waiting - 1
			admit(r)
			winners[#winners + 1] = r
			-- The heartbeat of who is next may come too late to notice its death.
			if r.hold > 0 or r.ttl < q.longest then q.headless = true end
		end
		budget = budget - 1
	end
end

-- want tells those who hold that somebody waits.
local function want()
	local ids = call('ZRANGE', ENDS, 0, MOST)
	local found = call('HMGET', QUEUE, unpack(ids))
	local numbers = {}
	for i, id in ipairs(ids) do
		local r = found[i] and parse(id, found[i])
		if r and r.token > 0 then
			numbers[r.session] = (numbers[r.session] or 'w') .. ' ' .. int(r.number)
		end
	end
	if q.lone then numbers[q.lone.session] = 'w ' .. int(q.lone.number) end
	for session, text in pairs(numbers) do send(session, text) end
end

-- granted is the ticket as it is after grant.
local function granted(r)
	for _, w in ipairs(winners) do
		if r and w.id == r.id then return w end
	end
	return r
end

-- left is how long a ticket stands if nothing extends it.
local function left(r)
	return (r == q.lone and r.stop or tonumber(call('ZSCORE', ENDS, r.id) or 0)) - now
end

-- look says when a client should look again for the sake of a waiting ticket:
-- in so many microseconds, 0 soon, since another library has the lock; -1 not at
-- all, since it is not the first.
local function look(id)
	if q.waiting ~= 1 and call('ZRANGE', WAITING, 0, 0)[1] ~= id then return -1 end
	if q.blocked then return 0 end
	return math.max(1, q.next - now)
end

local function follow()
	local followers = call('ZRANGEBYSCORE', FOLLOWERS, int(now), '+inf', 'LIMIT', 0, 10 * MOST)
	for _, f in ipairs(followers) do
		local session, number = string.match(f, '^(%S+) (%d+)$')
		send(session, 'f ' .. number)
	end
end

-- remember writes the last token, with what comes before it, for so long. An offset is
-- kept for ever, and so is the token of a queue that was resized: lone_join.lua would not see the queue.
local function remember(mark, memory)
	if q.last ~= q.last then
		call('SET', TOKEN, '?') -- until tokens are raised
	elseif q.offset > 0 or q.resized then
		call('SET', TOKEN, 'r' .. mark .. int(q.last) .. '+' .. int(q.offset))
	else
		call('SET', TOKEN, (q.empty and '' or 'q') .. mark .. int(q.last), 'PX', int((memory + ahead()) / 1000))
	end
end

-- stay has the queue stand until a time in ms, or for ever if it was resized. It needs no memory.
local function stay(at)
	if q.resized then call('PERSIST', QUEUE) else call('PEXPIREAT', QUEUE, at) end
end

-- store writes the queue, with the ticket that was lone.
local function store()
	if q.lone then
		ends(q.lone.id, q.lone.stop)
		put(q.lone)
		q.shown = q.lone.stop - 2000 -- not later than it really is
		call('SET', LOCK, MARKER, 'KEEPTTL')
		q.lone = nil
	end
	local idle = q.used == 0 and q.waiting == 0
	local push = not q.stored or idle or q.push
	if q.resized then
		q.keep = FOREVER
	elseif idle then
		q.keep = math.max(q.left, q.followed)
	else
		local final = math.max(q.final or 0, now) + ahead()
		if final + MEMORY > q.keep then
			q.keep = final + 2 * MEMORY
			push = true
		end
	end
	local fields = { 'state', struct.pack(STATE,
		q.capacity, q.used, q.waiting, q.last, q.offset, q.seq, q.next, q.keep, q.shown, q.followed, q.left, q.longest, q.mark,
		q.kind .. (q.resized and RESIZED or q.used > q.capacity and OVER or '')) }
	for id, r in pairs(records) do
		fields[#fields + 1] = id
		fields[#fields + 1] = record(r)
	end
	call('HSET', QUEUE, unpack(fields))
	local at = int(q.keep / 1000 + 1)
	if push then
		-- If the queue is lost while somebody holds, that one did not leave cleanly.
		local mark, memory = idle and q.mark or '?', (not idle or q.mark == '!') and LONG or MEMORY
		remember(mark, q.keep - now + memory)
		stay(at)
	end
	if push or q.newends then call('PEXPIREAT', ENDS, at) end
	if push or q.newwaiting then call('PEXPIREAT', WAITING, at) end
end

-- finish writes what has changed and sends the news. It reports whether there is
-- more to do than one script may.
local function finish()
	if changed then
		if q.followed > now then follow() end
		if q.used == 0 and q.waiting == 0 and q.shown > now then
			if redis.pcall('GET', LOCK) == MARKER then call('DEL', LOCK) end
			q.shown = 0
		end
		if q.used == 0 and q.waiting == 0 and q.left <= now and q.followed <= now and not q.resized then
			if q.stored then call('DEL', QUEUE, WAITING, ENDS) end
			q.empty = true
			remember(q.mark, q.mark == '!' and LONG or MEMORY)
		else
			store()
		end
	end
	if q.headless and q.waiting > 0 then
		local id = call('ZRANGE', WAITING, 0, 0)[1]
		local found = id and call('HGET', QUEUE, id)
		if found then
			local r = parse(id, found)
			send(r.session, 'l ' .. int(r.number))
		end
	end
	for _, r in ipairs(winners) do
		send(r.session, news(r.id, r.number, r.token,
			(is(r, 'i') and 'i' or '-') .. (q.waiting > 0 and 'w' or ''), r.hold > 0 and ' ' .. int(now) or ''))
	end
	for i = 1, #messages, 2 do call('PUBLISH', messages[i], messages[i + 1]) end
	return budget <= 0 and 1 or 0
end
