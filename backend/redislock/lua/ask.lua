-- ARGV: id, what: r (revoke), e (evict) or x (take away).
local DONE, GONE = 1, -2
local id, what = ARGV[1], ARGV[2]
local r = load(id)
if sweep(id) or q.dropped then r = nil end
local code = GONE
if r then
	code = DONE
	if what == 'x' or what == 'e' and r.token == 0 then
		expel(r)
	else
		flag(r, what)
		if r ~= q.lone then put(r) end
		changed = true
		send(r.session, what .. ' ' .. int(r.number))
		if what == 'e' and is(r, 'f') and not is(r, 'h') then
			local stop = now + math.min(left(r), r.ttl)
			if r == q.lone then r.stop = stop else ends(id, stop) end
		end
	end
end
grant()
return { code, finish() }
