-- ARGV: the floor of all later tokens.
load()
sweep()
grant()
local floor = tonumber(ARGV[1])
q.offset = math.max(q.offset, math.min(floor + 1, COUNTED) - math.floor(now / 10))
q.last = math.max(floor, q.last) -- floor, if that cannot be read
q.push, changed = true, true
return { 1, finish() }
