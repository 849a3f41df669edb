-- Agrees on one seed for a fleet: the one that most gateways hold, of two with as many the one that is held for longer.
--
-- KEYS: the seed; a hash with what each gateway holds, "mark since seen" by its name: a hash of the seed, and two moments in ms.
-- ARGV: the gateway's name; a seed; for how many ms the gateway has held it, -1 if it holds none yet and only offers it; after how many
-- ms a gateway that was not heard of has no voice.
-- Answers AGREED with the seed that is in force; RESTORED with the gateway's own, which was written back; UNDECIDED where others hold a
-- seed that is not here, and are about to write it back.

local AGREED, RESTORED, UNDECIDED = 0, 1, 2
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local name, offered, held, silence = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local function mark_of(seed) return string.sub(redis.sha1hex(seed), 1, 16) end
local function decimal(x) return string.format('%.0f', x) end

local mine = mark_of(offered)
-- Parses what a gateway holds: a mark, and since when; nil for one that was not heard of.
local function holding(text)
  local mark, begun, seen = string.match(text or '', '^(%x+) (%d+) (%d+)$')
  if mark and #begun <= 15 and #seen <= 15 and math.abs(now - seen) <= silence then return mark, tonumber(begun) end
end
local since = now - math.max(held, 0)
if held >= 0 then
  local mark, begun = holding(redis.call('HGET', KEYS[2], name))
  if mark == mine then since = math.min(since, begun) end
  redis.call('HSET', KEYS[2], name, mine .. ' ' .. decimal(since) .. ' ' .. decimal(now))
end

-- Mostly the gateway holds what is here. Gateways that hold another seed, and may be more, say so themselves.
local kept = redis.call('GET', KEYS[1])
if held >= 0 and kept == offered then return { AGREED, kept } end

local voices = {}
local all = redis.call('HGETALL', KEYS[2])
for index = 1, #all, 2 do
  local mark, begun = holding(all[index + 1])
  if not mark then
    redis.call('HDEL', KEYS[2], all[index])
  elseif held >= 0 or all[index] ~= name then
    local voice = voices[mark] or { number = 0, since = begun, mark = mark }
    voice.number, voice.since = voice.number + 1, math.min(voice.since, begun)
    voices[mark] = voice
  end
end

local function before(one, other)
  if one.number ~= other.number then return one.number > other.number end
  if one.since ~= other.since then return one.since < other.since end
  return one.mark < other.mark
end
local first
for _, voice in pairs(voices) do
  if not first or before(voice, first) then first = voice end
end

if kept and #kept == 16 and (not first or first.mark == mark_of(kept)) then return { AGREED, kept } end
if first and first.mark ~= mine then return { UNDECIDED, '' } end
redis.call('SET', KEYS[1], offered)
return { held >= 0 and RESTORED or AGREED, offered }
