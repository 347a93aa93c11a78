-- State and records are packed by struct: text would take most of a script's time.
local STATE = '>dddddddddddss'
local RECORD = '>dddddddsss'
