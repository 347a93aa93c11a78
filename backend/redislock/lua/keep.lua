-- ARGV: id, session, for how long.
local DONE, GONE, NOTHELD = 1, -2, -5
local id = ARGV[1]
local r = load(id)
if sweep(id) or q.dropped then r = nil end
grant()
r = granted(r)
local code = DONE
local stop = now + tonumber(ARGV[3])
if not r or r.session ~= ARGV[2] and not is(r, 'f') then
	code = GONE
elseif r.token == 0 then
	code = NOTHELD
elseif is(r, 'e') and stop > now + left(r) then
	code = GONE -- nothing makes an evicted ticket last longer
else
	flag(r, 'f')
	r.hold = stop - now
	if r == q.lone then
		r.stop = stop
		call('PEXPIRE', LOCK, int((stop - now) / 1000 + 2))
	else
		put(r)
		ends(id, stop)
		clear(stop)
	end
	changed = true
	q.headless = true -- who is next would look at the old end, with the next heartbeat
end
return { code, finish() }
