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
local function after(last, now, offset)
	return math.max(last + 1, math.min(math.floor(now / 10) + offset, COUNTED))
end
