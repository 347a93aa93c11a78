-- ARGV: id, session, units.
local id, units = ARGV[1], tonumber(ARGV[3])
local r = load(id)
if sweep(id) or q.dropped then r = nil end
if not r or r.session ~= ARGV[2] then
	grant()
	return { -2, finish() }
end
if units < r.units then
	if r.token > 0 then
		if r.units >= q.capacity and r.units == q.used then q.mark = '=' end -- the exclusive hold has ended well
		q.used = q.used - (r.units - units)
	end
	r.units = units
	if r ~= q.lone then put(r) end
	changed = true
end
grant()
return { 1, finish() }
