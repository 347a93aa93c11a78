-- State and records are packed by struct: text would take most of a script's time.
local STATE = '>ddddddddddddss'
local RECORD = '>dddddddsss'

-- Tokens follow the server's clock, in units of 10 us. A raise adds an offset to it: a
-- replica that becomes the master without the last grants goes on above them all the same.
-- The last numbers are counted one by one.
--
-- HIGH is above the tokens that were granted, except those of raised locks. It is looked at
-- when the last token is not of this minute; outside a Cluster only.
local COUNTED = 2 ^ 51 - 2 ^ 20
local MINUTE = 6e6
-- news is the message of a grant. What stands behind the colon shows that its sender could read
-- the ticket, whose ID no message names, and that nobody has changed it.
local function news(id, number, token, flags, rest)
	local head = string.format('%d %d %s', number, token, flags)
	return head .. ':' .. string.sub(redis.sha1hex(head .. rest .. ' ' .. id), 1, 20) .. rest
end

local function after(last, now, offset)
	return math.max(last + 1, math.min(math.floor(now / 10) + offset, COUNTED))
end
