-- ARGV: id, session, clean, for how long to refuse a Join of this ID that is still
-- to arrive, the same if there is no ticket (0: no Join is refused), whether it stays
-- if it has a fixed end.
local LEFT_IT, GONE = 1, -2
local id = ARGV[1]
local r = load(id)
if sweep(id) then r = nil end
local code = GONE
if r and ARGV[6] == '1' and is(r, 'f') then
	code = GONE -- it stays
elseif r and (r.session == ARGV[2] or is(r, 'f')) then
	code = LEFT_IT
	remove(r, ARGV[3] == '1')
	if ARGV[4] ~= '0' then bury(id, tonumber(ARGV[4])) end
elseif not r and ARGV[5] ~= '0' then
	bury(id, tonumber(ARGV[5]))
end
grant()
local more = finish()
return { code, q.empty and q.offset == 0 and 1 or 0, more }
