-- Decides rates where all gateways of a fleet count together: the limiter's algorithms over the fields of a key.
--
-- One call names one or more keys of one slot and is all or nothing: first everything is read and decided, then everything is
-- written. A script runs alone, so nothing comes between. Time is the store's own, read once; whatever a call writes, Redis 5
-- and later and Valkey replicate as effects, not as a script that would be run again. The rules, and why they are right, are
-- argued beside the algorithms in crates/limiter/src/algorithm and crates/limiter/src/exact; only the differences stand here. The tests
-- run both beside each other (tests/e2e/store).
--
-- Keys
--   A hash for words: a field for each rate, named by the kind of its algorithm and its period ("s60"), of three decimals:
--     s  sliding window   second of the latest charge, counted in the window before that second's, counted in that second's
--     w  fixed window     start in ms, count, 0          f  from the first request     c  of a calendar     k  by key
--     i  interval bucket  start of its period in ms, tokens missing then, 0
--     d  debt             ms at which the debt ends, ticks of 1/count ms beyond it, generation of undos
--   A list for a log (exact): a unit an entry, its moment in ms, the latest first. Beside it, only while there is something to
--     remember, a hash: "spilled" if a forced charge pushed out what still counted.
--   "#node" in a hash: the number of that node's last push, and the second when it was made.
--   What cannot be read counts as unused and is written over; only a writer of this store can make it so. What lies more than
--   a day ahead of now, or of a debt more than the horizon that the call names, is from a clock that stepped back, and counts as unused
--   too. A key of another type belongs to another program: the answer names it, and nothing is written.
--   A key expires a second after it stops counting. No charge lets it expire earlier than one before it: generations and
--   numbers of pushes are kept as long as their charges.
--
-- Numbers
--   Doubles are exact below 2^53. A period is at most 2678400000 ms (below 2^31.4), counts are below 2^20 (of windows 2^24),
--   moments below 2^45: sums of two moments, a count times a period (2^51.4), periods since the epoch times a count (2^51)
--   are exact. A debt in ticks would not be (2^54): it is kept and compared as milliseconds and ticks, apart. What takes more
--   than adding those comes worked out in the arguments. x % y is exact since x / y is never closer to an integer than 1/y
--   unless it is one, and is rounded by less than that below 2^52.

local clock = redis.call('TIME')

local SECOND, DAY = 1000, 86400000
local SLACK = 1000
local PUSH_MEMORY = 60000
local OLD_PUSH, MANY_PUSHES = 600, 64
local MOST_COUNT, MOST_BEGUN, GENERATIONS = 1048575, 16777215, 511
local NOT_CHARGED, CHARGED, DONE, ELSEWHEN, FOREIGN, EMPTIED = 0, 1, 2, 3, 4, 5

local second, micros = tonumber(clock[1]), tonumber(clock[2])
local now = second * SECOND + math.floor(micros / SECOND)
local now_up = second * SECOND + math.ceil(micros / SECOND)
local unreadable = 0
-- The answer that ends the call early, if any.
local verdict

local argument, key = 0, 0
local function text()
  argument = argument + 1
  return ARGV[argument]
end
local function number() return tonumber(text()) end
local function next_key()
  key = key + 1
  return KEYS[key]
end

local function decimal(x) return string.format('%.0f', x) end
local function stop(reply)
  verdict = reply
  error('stopped')
end
local function head(code) return { code, second, micros, unreadable } end

-- Reads from the store. A key of another type ends the call.
local function get(ask, ...)
  local got = redis.pcall(...)
  if type(got) == 'table' and got.err then
    if string.find(got.err, 'WRONGTYPE', 1, true) then stop({ head(FOREIGN), { ask.place } }) end
    stop(got)
  end
  return got
end

-- The three numbers of a field, none of them above 10^15; nothing if it cannot be read.
local function fields(of)
  if not of then return nil end
  local a, b, c = string.match(of, '^(%d+) (%d+) (%d+)$')
  if a and #a <= 15 and #b <= 15 and #c <= 15 then return { tonumber(a), tonumber(b), tonumber(c) } end
  unreadable = unreadable + 1
  return nil
end

-- Debts are pairs of milliseconds and ticks, of which r.count make a millisecond.
local function less(am, at, bm, bt) return am < bm or (am == bm and at < bt) end
local function add(r, am, at, bm, bt)
  local m, t = am + bm, at + bt
  if t >= r.count then return m + 1, t - r.count end
  return m, t
end
local function subtract(r, am, at, bm, bt)
  if at < bt then return am - bm - 1, at + r.count - bt end
  return am - bm, at - bt
end

-- Each kind: how its arguments are read, a rate seen as of now, whether a cost fits, and what a charge or an undo writes to
-- r.raw. `see` is called before `fits` and `charge`; r.due is when what `charge` wrote stops counting.
local kinds = {}

kinds.s = {
  read = function() end,
  see = function(r)
    r.start, r.stamp, r.before, r.current = second - second % r.period, second, 0, 0
    local raw = r.raw
    if raw and raw[1] * SECOND <= second * SECOND + DAY then
      local at = raw[1]
      if at > second then r.stamp = at end
      if at >= r.start then
        r.before, r.current = math.min(raw[2], MOST_COUNT), math.min(raw[3], MOST_COUNT)
        if at >= r.start + r.period then r.start = at - at % r.period end
      elseif at >= r.start - r.period then
        r.before = math.min(raw[3], MOST_COUNT)
      end
    end
    r.elapsed = math.max(now - r.start * SECOND, 0)
  end,
  -- before · (P − e) + current · P + cost · P < (count + 1) · P, with the terms in P brought to the right.
  fits = function(r, cost)
    return r.before * (r.millis - r.elapsed) < (r.count + 1 - r.current - cost) * r.millis
  end,
  charge = function(r, cost)
    r.raw = { r.stamp, r.before, math.min(r.current + cost, MOST_COUNT) }
    r.due = (r.stamp - r.stamp % r.period + 2 * r.period) * SECOND
  end,
  undo = function(r, cost, left)
    local raw = r.raw
    local window, start = left[1] - left[1] % r.period, raw[1] - raw[1] % r.period
    if start == window then
      r.raw = { raw[1], raw[2], math.max(raw[3] - cost, 0) }
    elseif start - r.period == window then
      r.raw = { raw[1], math.max(raw[2] - cost, 0), raw[3] }
    end
  end,
}

-- Of windows: r.start is where one begins that begins now, r.length how long it is.
local function see_window(r)
  r.count_used = 0
  local raw = r.raw
  if raw and raw[1] <= now + DAY then
    local counts = raw[1] >= r.start
    if r.kind == 'f' then counts = now < raw[1] + r.length end
    if counts then r.start, r.count_used = raw[1], math.min(raw[2], MOST_BEGUN) end
  end
end
local function window(read, align)
  return {
    read = read,
    see = function(r)
      align(r)
      see_window(r)
    end,
    fits = function(r, cost) return r.count_used + cost <= r.count end,
    charge = function(r, cost)
      r.raw = { r.start, math.min(r.count_used + cost, MOST_BEGUN), 0 }
      r.due = r.start + r.length
    end,
    undo = function(r, cost, left)
      local raw = r.raw
      if raw[1] == left[1] and raw[2] > 0 then r.raw = { raw[1], math.max(raw[2] - cost, 0), 0 } end
    end,
  }
end
kinds.w = window(function() end, function(r) r.start, r.length = now - now % r.millis, r.millis end)
-- Later than those of w by an offset that belongs to the key; it comes worked out, and is less than a period.
kinds.k = window(function(r) r.offset = number() end, function(r)
  r.start, r.length = now - (now - r.offset) % r.millis, r.millis
end)
kinds.f = window(function() end, function(r) r.start, r.length = now, r.millis end)
kinds.c = window(function(r)
  r.spans = {}
  for span = 1, 3 do r.spans[span] = { number(), number() } end
end, function(r)
  for _, span in ipairs(r.spans) do
    if span[1] <= second and second < span[1] + span[2] then
      r.start, r.length = span[1] * SECOND, span[2] * SECOND
      return
    end
  end
  stop({ head(ELSEWHEN) })
end)

-- What is left of so many missing tokens since the period that began at `start`.
local function refilled(r, missing, start)
  local periods = math.floor(math.max(r.start - start, 0) / r.millis)
  return missing - math.min(missing, periods * r.count)
end
kinds.i = {
  read = function(r) r.burst = number() end,
  see = function(r)
    r.start, r.missing = now - now % r.millis, 0
    local raw = r.raw
    if raw and raw[1] <= now + DAY then
      r.missing = refilled(r, math.min(raw[2], MOST_BEGUN), raw[1])
      r.start = math.max(raw[1], r.start)
    end
  end,
  fits = function(r, cost) return r.missing + cost <= r.burst end,
  charge = function(r, cost, forced)
    local missing = math.min(r.missing + cost, MOST_BEGUN)
    if forced then missing = math.min(missing, math.max(2 * r.burst, r.missing)) end
    r.raw = { r.start, missing, 0 }
    r.due = r.start + math.max(math.ceil(missing / r.count), 1) * r.millis
  end,
  undo = function(r, cost, left)
    local here = { start = now - now % r.millis, millis = r.millis, count = r.count }
    kinds.i.see(r)
    local back = 0
    if left[1] <= now + DAY then back = math.min(refilled(here, cost, left[1]), r.missing) end
    if back > 0 then r.raw = { r.start, r.missing - back, 0 } end
  end,
}

-- The debt of a field now.
local function owed(r, raw)
  local ahead = raw[1] - now
  if ahead < 0 or ahead > r.horizon then return 0, 0 end
  return ahead, math.min(raw[2], r.count - 1)
end
local function generation(raw) return math.min(math.max(raw and raw[3] or 1, 1), GENERATIONS) end
kinds.d = {
  read = function(r)
    r.cost_m, r.cost_t = number(), number()
    r.room_m, r.room_t = number(), number()
    r.most_m, r.most_t = number(), number()
    r.horizon = number()
  end,
  see = function(r)
    r.debt_m, r.debt_t = 0, 0
    if r.raw then r.debt_m, r.debt_t = owed(r, r.raw) end
  end,
  fits = function(r)
    return r.room_m >= 0 and not less(r.room_m, r.room_t, r.debt_m, r.debt_t)
  end,
  charge = function(r, _, forced)
    local m, t = add(r, r.debt_m, r.debt_t, r.cost_m, r.cost_t)
    if forced then
      local most_m, most_t = r.most_m, r.most_t
      if less(most_m, most_t, r.debt_m, r.debt_t) then most_m, most_t = r.debt_m, r.debt_t end
      if less(most_m, most_t, m, t) then m, t = most_m, most_t end
    end
    r.raw = { now + m, t, generation(r.raw) }
    r.due = now + m + 1
  end,
  undo = function(r, _, left, made)
    kinds.d.see(r)
    local m, t = r.cost_m, r.cost_t
    if generation(r.raw) == generation(left) then
      local left_m, left_t = owed(r, left)
      if less(left_m, left_t, m, t) then m, t = left_m, left_t end
    else
      m, t = subtract(r, m, t, math.min(math.max(now - made, 0), 8589934592), 0)
    end
    if less(r.debt_m, r.debt_t, m, t) then m, t = r.debt_m, r.debt_t end
    if less(0, 0, m, t) then
      local debt_m, debt_t = subtract(r, r.debt_m, r.debt_t, m, t)
      r.raw = { now + debt_m, debt_t, generation(r.raw) % GENERATIONS + 1 }
    end
  end,
}

-- An edit of a period or an algorithm names another field. What the old one counts goes on in the new one, as if all of it
-- was made now: more than still counts, for a short time, never less. Of several it is the one of the next longer period, or of
-- the longest. The old ones go with the first charge, so two gateways of which one is edited earlier count together still.
local function units_of(kind, period, raw, r)
  local millis = period * SECOND
  if kind == 's' then
    local old = { period = period, raw = raw }
    kinds.s.see(old)
    return math.floor(old.before * (millis - math.min(old.elapsed, millis)) / millis) + old.current
  end
  if kind == 'd' then
    local ahead = raw[1] - now
    if ahead < 0 or ahead > 130 * DAY then return 0 end
    local ticks = ahead * r.count + math.min(raw[2], r.count - 1)
    return math.min(math.ceil(ticks / millis), 2 * MOST_COUNT)
  end
  if raw[1] > now + DAY then return 0 end
  if kind == 'i' then
    local old = { start = now - now % millis, millis = millis, count = r.count }
    return refilled(old, math.min(raw[2], MOST_BEGUN), raw[1])
  end
  -- Windows, of which those of a calendar may be an hour longer than their period.
  if raw[1] + millis + 3600 * SECOND > now then return math.min(raw[2], MOST_BEGUN) end
  return 0
end
local function convert(ask)
  local mine, others, all = {}, {}, get(ask, 'HGETALL', ask.key)
  for _, r in ipairs(ask.rates) do mine[r.field] = true end
  for index = 1, #all, 2 do
    local kind, period = string.match(all[index], '^([swfckid])(%d+)$')
    period = tonumber(period)
    if period and period >= 1 and period <= 2678400 and not mine[all[index]] then
      local raw = fields(all[index + 1])
      if raw then table.insert(others, { kind = kind, period = period, raw = raw }) end
      ask.outdated = ask.outdated or {}
      table.insert(ask.outdated, all[index])
    end
  end
  for _, r in ipairs(ask.rates) do
    local from
    for _, other in ipairs(others) do
      local nearer = not from
      if from and other.period >= r.period then
        nearer = from.period < r.period or other.period < from.period
      elseif from then
        nearer = from.period < other.period
      end
      if nearer then from = other end
    end
    local units = 0
    if from and not r.raw then units = units_of(from.kind, from.period, from.raw, r) end
    if units > 0 then
      local made = setmetatable({}, { __index = r })
      if r.kind == 'd' then
        local ticks = math.min(units, 2 * MOST_COUNT) * r.millis
        made.cost_m, made.cost_t = math.floor(ticks / r.count), ticks % r.count
      end
      kinds[r.kind].see(made)
      kinds[r.kind].charge(made, units, true)
      r.raw = made.raw
    end
  end
end

-- The entry of a log with so many later ones; what this call enters is on top.
local function entry(ask, age)
  if age < ask.entered then return ask.at end
  age = age - ask.entered
  local known = ask.known[age]
  if not known then
    local read = get(ask, 'LINDEX', ask.key, age)
    if read and string.find(read, '^%d+$') and #read <= 15 then
      known = tonumber(read)
    else
      unreadable = unreadable + 1
      known = 0
    end
    ask.known[age] = known
  end
  return known
end
-- The number of entries later than a moment, which is from `low` to `high`: by halving, they are in order.
local function later(ask, moment, low, high)
  high = math.min(high, ask.len)
  low = math.min(low, high)
  if high > low and entry(ask, high - 1) > moment then return high end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if entry(ask, middle) > moment then low = middle + 1 else high = middle end
  end
  return low
end
local function open_log(ask)
  ask.known, ask.entered = {}, 0
  ask.len = math.min(get(ask, 'LLEN', ask.key), ask.entries)
  -- As long as a step back of up to a day is waited out, entries are in order. A longer one starts anew.
  if ask.len > 0 and entry(ask, 0) > now_up + DAY then ask.len, ask.stale = 0, true end
  ask.at = now_up
  if ask.len > 0 then ask.at = math.max(ask.at, entry(ask, 0)) end
end
local function log_fits(ask, r)
  local room = r.count - ask.cost
  return room >= 0 and (ask.len <= room or entry(ask, room) <= now - r.millis)
end
-- The latest entry; the one that is waited for and the oldest that counts, each with its age and one, or zero for none.
local function log_row(ask, row)
  local latest = 0
  if ask.len > 0 then latest = entry(ask, 0) end
  for _, r in ipairs(ask.rates) do
    local room = r.count - ask.cost
    local refuses, used = r.refuses and room >= 0, nil
    if refuses then
      used = later(ask, now - r.millis, room + 1, r.count)
    else
      used = later(ask, now - r.millis, 0, ask.len)
    end
    local waits = math.min(used, r.count)
    if refuses then waits = room + 1 end
    row[#row + 1] = latest
    row[#row + 1] = waits
    row[#row + 1] = waits > 0 and entry(ask, waits - 1) or 0
    row[#row + 1] = used
    row[#row + 1] = used > 0 and entry(ask, used - 1) or 0
  end
end
-- Enters the ask's cost on top, as far as it fits into the log, and records whether that pushes out what counts.
local function enter(ask)
  local used = later(ask, now - ask.longest, 0, ask.len)
  ask.spilled = used + ask.cost > ask.entries
  local entered = math.min(ask.cost, ask.entries)
  ask.len = math.min(ask.len + entered, ask.entries)
  ask.entered = entered
end

-- Of windows from the first request the earlier one goes on, if it lasts still.
local function merged_windows(r, one, other)
  if one[1] < other[1] then one, other = other, one end
  local most = math.max(one[2], other[2])
  if one[1] == other[1] or r.kind == 'i' then return { one[1], most, 0 } end
  if r.kind == 'f' and now < other[1] + r.millis then return { other[1], most, 0 } end
  return one
end
-- At least what either of two fields counts, and no more than both.
local function merged(r, one, other)
  if not one or other[1] == 0 then return one or (other[1] > 0 and other) or nil end
  if r.kind == 'd' then
    if less(one[1], one[2], other[1], other[2]) then one, other = other, one end
    return { one[1], one[2], math.max(generation(one), generation(other)) }
  end
  if r.kind ~= 's' then return merged_windows(r, one, other) end
  if one[1] < other[1] then one, other = other, one end
  local start, window = one[1] - one[1] % r.period, other[1] - other[1] % r.period
  if start == window then return { one[1], math.max(one[2], other[2]), math.max(one[3], other[3]) } end
  if start - r.period == window then return { one[1], math.max(one[2], other[3]), one[3] } end
  return one
end
-- When a field stops counting.
local function due_of(r)
  if r.kind == 's' then return (r.raw[1] - r.raw[1] % r.period + 2 * r.period) * SECOND end
  if r.kind == 'd' then return r.raw[1] + 1 end
  if r.kind == 'i' then return r.raw[1] + math.max(math.ceil(r.raw[2] / r.count), 1) * r.millis end
  -- Windows of a calendar may be an hour longer than their period.
  return r.raw[1] + r.millis + (r.kind == 'c' and 3600 * SECOND or 0)
end
-- Units of the longest log in the call, and its runs: how many units, and the moment of each.
local function restore_log(ask)
  local units, runs = 0, nil
  for _, r in ipairs(ask.rates) do
    local told = math.min(r.runs[1][1] + r.runs[2][1] + r.runs[3][1], ask.entries)
    if told > units then units, runs = told, r.runs end
  end
  if units > later(ask, now - ask.longest, 0, ask.len) then ask.runs = runs end
end
local function restore(ask)
  if ask.entries > 0 then return restore_log(ask) end
  for _, r in ipairs(ask.rates) do
    r.raw = merged(r, r.raw, r.left)
    if r.raw then r.due = due_of(r) end
    ask.restored = ask.restored or (r.due and r.due > now)
  end
end

local mode = text()
-- A store that was emptied decides nothing before the gateways have restored it.
if mode == 'guarded' then
  local epoch = text()
  if redis.pcall('GET', next_key()) ~= epoch then return { head(EMPTIED) } end
  mode = text()
end
-- An operator clears a key: nothing is decided.
if mode == 'forget' then
  redis.call('DEL', unpack(KEYS))
  return { head(DONE) }
end

local function read_ask(place)
  local ask = { place = place, key = next_key(), rates = {}, longest = 0 }
  local rates = number()
  ask.cost, ask.entries = number(), number()
  if ask.entries > 0 then
    ask.beside = next_key()
  else
    ask.beside = ask.key
  end
  if mode == 'push' then ask.node, ask.push = '#' .. text(), number() end
  if mode == 'settle' then ask.made = number() end
  local names = {}
  for index = 1, rates do
    local r = { kind = text(), field = text(), count = number(), period = number() }
    r.millis = r.period * SECOND
    ask.longest = math.max(ask.longest, r.millis)
    if ask.entries == 0 then kinds[r.kind].read(r) end
    if mode == 'restore' and ask.entries > 0 then
      r.runs = { { number(), number() }, { number(), number() }, { number(), number() } }
    elseif mode == 'settle' or mode == 'restore' then
      r.left = { number(), number(), number() }
    end
    ask.rates[index], names[index] = r, r.field
  end
  if ask.entries > 0 then
    open_log(ask)
  else
    local got, missing = get(ask, 'HMGET', ask.key, unpack(names)), false
    for index, r in ipairs(ask.rates) do
      r.raw = fields(got[index])
      missing = missing or not got[index]
    end
    if missing and mode ~= 'settle' and mode ~= 'restore' then convert(ask) end
  end
  return ask
end

local function row_of(ask)
  local row = { 0 }
  for index, r in ipairs(ask.rates) do
    if r.refuses then row[1] = row[1] + 2 ^ (index - 1) end
  end
  if ask.entries > 0 then
    log_row(ask, row)
  else
    for _, r in ipairs(ask.rates) do
      local raw = r.raw or { 0, 0, 0 }
      row[#row + 1], row[#row + 2], row[#row + 3] = raw[1], raw[2], raw[3]
    end
  end
  return row
end

-- Returns true if every rate has room, and marks those that have none.
local function judge(ask)
  local fits = true
  for _, r in ipairs(ask.rates) do
    if ask.entries > 0 then
      r.refuses = not log_fits(ask, r)
    else
      kinds[r.kind].see(r)
      r.refuses = not kinds[r.kind].fits(r, ask.cost)
    end
    fits = fits and not r.refuses
  end
  return fits
end
local function charge(ask, forced)
  ask.charged = true
  if ask.entries > 0 then return enter(ask) end
  for _, r in ipairs(ask.rates) do
    if forced then kinds[r.kind].see(r) end
    kinds[r.kind].charge(r, ask.cost, forced)
  end
end
local function settle(ask)
  if ask.entries > 0 then
    -- A log that stands for more than it shows gives nothing back. Entries of one moment are the same.
    if ask.stale or get(ask, 'HGET', ask.beside, 'spilled') then return end
    ask.given_back = ask.rates[1].left[1]
    return
  end
  for _, r in ipairs(ask.rates) do
    if r.raw then kinds[r.kind].undo(r, ask.cost, r.left, ask.made) end
  end
  ask.settled = true
end

-- Everything is read before anything is written.
local asks, rows, code = {}, {}, NOT_CHARGED
local judged, trouble = pcall(function()
  while key < #KEYS do asks[#asks + 1] = read_ask(#asks) end
  local fits = true
  if mode == 'decide' or mode == 'peek' then
    for _, ask in ipairs(asks) do fits = judge(ask) and fits end
  end
  for _, ask in ipairs(asks) do
    if mode == 'decide' and fits then
      code = CHARGED
      charge(ask, false)
    elseif mode == 'force' then
      code = CHARGED
      charge(ask, true)
    elseif mode == 'push' then
      -- A node's pushes of a key are numbered upwards, and one is sent again until it is answered or given up. So a number
      -- that is not above the last one seen has been charged; a push that was given up never comes again.
      local seen = get(ask, 'HGET', ask.beside, ask.node)
      ask.is_new_node = not seen
      seen = tonumber(seen and string.match(seen, '^(%d+) ') or -1)
      code = DONE
      if ask.push > seen then
        code = CHARGED
        charge(ask, true)
      end
    elseif mode == 'settle' then
      code = DONE
      settle(ask)
    elseif mode == 'restore' then
      code = DONE
      restore(ask)
    end
  end
  if mode ~= 'settle' and mode ~= 'restore' then
    for _, ask in ipairs(asks) do rows[#rows + 1] = row_of(ask) end
  end
end)
if not judged then
  if verdict then return verdict end
  error(trouble)
end

-- A write that is refused (read only, out of memory) is the first one, and ends the call with nothing written: commands that
-- take memory come first, and Redis checks once a script that there is any.
local function keep(name, moment)
  local left = moment - now + SLACK
  if redis.call('PTTL', name) < left then redis.call('PEXPIRE', name, decimal(left)) end
end
local function write_fields(ask, least)
  local set, due = {}, least
  for _, r in ipairs(ask.rates) do
    if r.raw then
      set[#set + 1] = r.field
      set[#set + 1] = decimal(r.raw[1]) .. ' ' .. decimal(r.raw[2]) .. ' ' .. decimal(r.raw[3])
    end
    due = math.max(due, r.due or 0)
  end
  if #set > 0 then redis.call('HSET', ask.key, unpack(set)) end
  if ask.outdated then redis.call('HDEL', ask.key, unpack(ask.outdated)) end
  if due > 0 then keep(ask.key, due) end
end
local function write_log(ask, least)
  local units, moment = {}, decimal(ask.at)
  for unit = 1, ask.entered do units[unit] = moment end
  redis.call('LPUSH', ask.key, unpack(units))
  redis.call('LTRIM', ask.key, 0, (ask.stale and ask.entered or ask.entries) - 1)
  local due = math.max(ask.at + ask.longest, least)
  if ask.spilled then
    redis.call('HSET', ask.beside, 'spilled', 1)
    keep(ask.beside, due)
  else
    redis.call('HDEL', ask.beside, 'spilled')
  end
  keep(ask.key, due)
end
-- Writes runs of units in place of what a log holds.
local function write_runs(ask)
  local old, latest = redis.call('LLEN', ask.key), 0
  for _, run in ipairs(ask.runs) do
    local units, moment = {}, decimal(run[2])
    for unit = 1, math.min(run[1], ask.entries) do units[unit] = moment end
    if #units > 0 then
      redis.call('RPUSH', ask.key, unpack(units))
      latest = math.max(latest, run[2])
    end
  end
  redis.call('LTRIM', ask.key, old, old + ask.entries - 1)
  keep(ask.key, latest + ask.longest)
  ask.known, ask.len = {}, math.min(redis.call('LLEN', ask.key), ask.entries)
end
-- Records a push, and drops those that no node repeats any more.
local function remember(ask)
  if ask.is_new_node and redis.call('HLEN', ask.beside) > MANY_PUSHES then
    local all = redis.call('HGETALL', ask.beside)
    for index = 1, #all, 2 do
      local made = string.find(all[index], '^#') and string.match(all[index + 1], ' (%d+)$')
      if made and tonumber(made) + OLD_PUSH < second then redis.call('HDEL', ask.beside, all[index]) end
    end
  end
  redis.call('HSET', ask.beside, ask.node, decimal(ask.push) .. ' ' .. decimal(second))
  keep(ask.beside, now + PUSH_MEMORY)
end

for _, ask in ipairs(asks) do
  local least = ask.node and now + PUSH_MEMORY or 0
  if ask.charged then
    if ask.entries > 0 then write_log(ask, least) else write_fields(ask, least) end
    if ask.node then remember(ask) end
  elseif ask.settled or ask.restored then
    write_fields(ask, 0)
  elseif ask.runs then
    write_runs(ask)
  elseif ask.given_back then
    redis.call('LREM', ask.key, decimal(ask.cost), decimal(ask.given_back))
    ask.known, ask.len = {}, math.min(redis.call('LLEN', ask.key), ask.entries)
  end
end
if mode == 'settle' or mode == 'restore' then
  for _, ask in ipairs(asks) do rows[#rows + 1] = row_of(ask) end
end

table.insert(rows, 1, head(code))
return rows
