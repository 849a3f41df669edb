-- Decides rates where all gateways of a fleet count together: the limiter's algorithms over the fields of a key.
--
-- One call names one or more keys of one slot and is all or nothing: first everything is read and decided, then everything is
-- written. A script runs alone, so nothing comes between. Time is the store's own, read once; whatever a call writes, Redis 5
-- and later and Valkey replicate as effects, not as a script that would be run again. The rules, and why they are right, are
-- argued beside the algorithms in crates/limiter/src/algorithm and crates/limiter/src/exact; only the differences stand here. The tests
-- run both beside each other (tests/e2e/store).
--
-- A batch is several calls in one run, one after the other, as if each were alone: what fails in one changes nothing for the others.
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

local KEYS, ARGV = KEYS, ARGV
local min, max, floor, ceil, match = math.min, math.max, math.floor, math.ceil, string.match

local second, micros = tonumber(clock[1]), tonumber(clock[2])
local now = second * SECOND + floor(micros / SECOND)
local now_up = second * SECOND + ceil(micros / SECOND)

-- All that follows is in one function: what a closure captures from the chunk itself is looked up in a list of all that was captured
-- before, which cost more than the decision; from this function it is at hand.
local function script()
  -- Of the call under way: the latest argument and key that were read, the fields that could not be read, and the answer that ends it
  -- early, if any.
  local argument, key = 0, 0
  local unreadable = 0
  local verdict

  local function text()
    argument = argument + 1
    return ARGV[argument]
  end
  local function number()
    argument = argument + 1
    return tonumber(ARGV[argument])
  end
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
      if string.find(got.err, 'WRONGTYPE', 1, true) then stop({ FOREIGN, second, micros, unreadable, ask.place }) end
      stop(got)
    end
    return got
  end

  -- The three numbers of a field, none of them above 10^15; nothing if it cannot be read.
  local function fields(of)
    if not of then return nil end
    local a, b, c = match(of, '^(%d+) (%d+) (%d+)$')
    if a and #a <= 15 and #b <= 15 and #c <= 15 then return { tonumber(a), tonumber(b), tonumber(c) } end
    unreadable = unreadable + 1
    return nil
  end
  -- The text of a field. The fast format is exact where numbers are below 2^31, which all but milliseconds are.
  local function packed(raw)
    return string.format(raw[1] < 2147483648 and '%d %d %d' or '%.0f %d %d', raw[1], raw[2], raw[3])
  end

  -- Debts are pairs of milliseconds and ticks, of which r.count make a millisecond.
  local function less(am, at, bm, bt) return am < bm or (am == bm and at < bt) end
  local function generation(raw) return min(max(raw and raw[3] or 1, 1), GENERATIONS) end
  -- The debt of a field now.
  local function owed(r, raw)
    local ahead = raw[1] - now
    if ahead < 0 or ahead > r.horizon then return 0, 0 end
    return ahead, min(raw[2], r.count - 1)
  end
  -- What is left of so many missing tokens since the period that began at `start`.
  local function refilled(r, missing, start)
    local periods = floor(max(r.start - start, 0) / r.millis)
    return missing - min(missing, periods * r.count)
  end

  -- Each kind: how its arguments are read, a rate seen as of now, whether a cost fits, and what a charge or an undo writes to
  -- r.raw. `see` is called before `fits` and `charge`; r.due is when what `charge` wrote stops counting, and r.lives when what was read
  -- does, where the key certainly lives as long. A kind is built when a call first names it: most calls name one.
  local kinds = {}
  local function build(kind)
    if kind == 's' then
      return {
        see = function(r)
          local raw, period = r.raw, r.period
          local start, stamp, before, current = second - second % period, second, 0, 0
          if raw and raw[1] * SECOND <= second * SECOND + DAY then
            local at = raw[1]
            local window = at - at % period
            if at > second then stamp = at end
            if at >= start then
              before, current = min(raw[2], MOST_COUNT), min(raw[3], MOST_COUNT)
              start = window
            elseif at >= start - period then
              before = min(raw[3], MOST_COUNT)
            end
            r.lives = (window + 2 * period) * SECOND
          end
          r.stamp, r.before, r.current = stamp, before, current
          r.elapsed = max(now - start * SECOND, 0)
        end,
        -- before · (P − e) + current · P + cost · P < (count + 1) · P, with the terms in P brought to the right.
        fits = function(r, cost)
          return r.before * (r.millis - r.elapsed) < (r.count + 1 - r.current - cost) * r.millis
        end,
        charge = function(r, cost)
          r.raw = { r.stamp, r.before, min(r.current + cost, MOST_COUNT) }
          r.due = (r.stamp - r.stamp % r.period + 2 * r.period) * SECOND
        end,
        undo = function(r, cost, left)
          local raw = r.raw
          local window, start = left[1] - left[1] % r.period, raw[1] - raw[1] % r.period
          if start == window then
            r.raw = { raw[1], raw[2], max(raw[3] - cost, 0) }
          elseif start - r.period == window then
            r.raw = { raw[1], max(raw[2] - cost, 0), raw[3] }
          end
        end,
      }
    end
    if kind == 'i' then
      local rules = {}
      function rules.read(r) r.burst = number() end
      function rules.see(r)
        r.start, r.missing = now - now % r.millis, 0
        local raw = r.raw
        if raw and raw[1] <= now + DAY then
          r.missing = refilled(r, min(raw[2], MOST_BEGUN), raw[1])
          r.start = max(raw[1], r.start)
        end
      end
      function rules.fits(r, cost) return r.missing + cost <= r.burst end
      function rules.charge(r, cost, forced)
        local missing = min(r.missing + cost, MOST_BEGUN)
        if forced then missing = min(missing, max(2 * r.burst, r.missing)) end
        r.raw = { r.start, missing, 0 }
        r.due = r.start + max(ceil(missing / r.count), 1) * r.millis
      end
      function rules.undo(r, cost, left)
        local here = { start = now - now % r.millis, millis = r.millis, count = r.count }
        rules.see(r)
        local back = 0
        if left[1] <= now + DAY then back = min(refilled(here, cost, left[1]), r.missing) end
        if back > 0 then r.raw = { r.start, r.missing - back, 0 } end
      end
      return rules
    end
    if kind == 'd' then
      local function add(r, am, at, bm, bt)
        local m, t = am + bm, at + bt
        if t >= r.count then return m + 1, t - r.count end
        return m, t
      end
      local function subtract(r, am, at, bm, bt)
        if at < bt then return am - bm - 1, at + r.count - bt end
        return am - bm, at - bt
      end
      local rules = {}
      function rules.read(r)
        r.cost_m, r.cost_t = number(), number()
        r.room_m, r.room_t = number(), number()
        r.most_m, r.most_t = number(), number()
        r.horizon = number()
      end
      function rules.see(r)
        r.debt_m, r.debt_t = 0, 0
        if r.raw then r.debt_m, r.debt_t = owed(r, r.raw) end
      end
      function rules.fits(r)
        return r.room_m >= 0 and not less(r.room_m, r.room_t, r.debt_m, r.debt_t)
      end
      function rules.charge(r, _, forced)
        local m, t = add(r, r.debt_m, r.debt_t, r.cost_m, r.cost_t)
        if forced then
          local most_m, most_t = r.most_m, r.most_t
          if less(most_m, most_t, r.debt_m, r.debt_t) then most_m, most_t = r.debt_m, r.debt_t end
          if less(most_m, most_t, m, t) then m, t = most_m, most_t end
        end
        r.raw = { now + m, t, generation(r.raw) }
        r.due = now + m + 1
      end
      function rules.undo(r, _, left, made)
        rules.see(r)
        local m, t = r.cost_m, r.cost_t
        if generation(r.raw) == generation(left) then
          local left_m, left_t = owed(r, left)
          if less(left_m, left_t, m, t) then m, t = left_m, left_t end
        else
          m, t = subtract(r, m, t, min(max(now - made, 0), 8589934592), 0)
        end
        if less(r.debt_m, r.debt_t, m, t) then m, t = r.debt_m, r.debt_t end
        if less(0, 0, m, t) then
          local debt_m, debt_t = subtract(r, r.debt_m, r.debt_t, m, t)
          r.raw = { now + debt_m, debt_t, generation(r.raw) % GENERATIONS + 1 }
        end
      end
      return rules
    end
    -- Windows: r.start is where one begins that begins now, r.length how long it is.
    local read, align
    if kind == 'w' then
      align = function(r) r.start, r.length = now - now % r.millis, r.millis end
    elseif kind == 'k' then
      -- Later than those of w by an offset that belongs to the key; it comes worked out, and is less than a period.
      read = function(r) r.offset = number() end
      align = function(r) r.start, r.length = now - (now - r.offset) % r.millis, r.millis end
    elseif kind == 'f' then
      align = function(r) r.start, r.length = now, r.millis end
    else
      read = function(r)
        r.spans = {}
        for span = 1, 3 do r.spans[span] = { number(), number() } end
      end
      align = function(r)
        for _, span in ipairs(r.spans) do
          if span[1] <= second and second < span[1] + span[2] then
            r.start, r.length = span[1] * SECOND, span[2] * SECOND
            return
          end
        end
        stop(head(ELSEWHEN))
      end
    end
    return {
      read = read,
      see = function(r)
        align(r)
        r.count_used = 0
        local raw = r.raw
        if raw and raw[1] <= now + DAY then
          local counts = raw[1] >= r.start
          if kind == 'f' then counts = now < raw[1] + r.length end
          if counts then r.start, r.count_used = raw[1], min(raw[2], MOST_BEGUN) end
          -- Windows of a calendar have no length of their own.
          if kind ~= 'c' then r.lives = raw[1] + r.length end
        end
      end,
      fits = function(r, cost) return r.count_used + cost <= r.count end,
      charge = function(r, cost)
        r.raw = { r.start, min(r.count_used + cost, MOST_BEGUN), 0 }
        r.due = r.start + r.length
      end,
      undo = function(r, cost, left)
        local raw = r.raw
        if raw[1] == left[1] and raw[2] > 0 then r.raw = { raw[1], max(raw[2] - cost, 0), 0 } end
      end,
    }
  end
  local function rules_of(kind)
    local rules = kinds[kind]
    if not rules then
      rules = build(kind)
      kinds[kind] = rules
    end
    return rules
  end

  -- An edit of a period or an algorithm names another field. What the old one counts goes on in the new one, as if all of it
  -- was made now: more than still counts, for a short time, never less. Of several it is the one of the next longer period, or of
  -- the longest. The old ones go with the first charge, so two gateways of which one is edited earlier count together still.
  local function convert(ask)
    local all = get(ask, 'HGETALL', ask.key)
    if #all == 0 then
      ask.is_new = true
      return
    end
    local function units_of(kind, period, raw, r)
      local millis = period * SECOND
      if kind == 's' then
        local old = { period = period, raw = raw }
        rules_of('s').see(old)
        return floor(old.before * (millis - min(old.elapsed, millis)) / millis) + old.current
      end
      if kind == 'd' then
        local ahead = raw[1] - now
        if ahead < 0 or ahead > 130 * DAY then return 0 end
        local ticks = ahead * r.count + min(raw[2], r.count - 1)
        return min(ceil(ticks / millis), 2 * MOST_COUNT)
      end
      if raw[1] > now + DAY then return 0 end
      if kind == 'i' then
        local old = { start = now - now % millis, millis = millis, count = r.count }
        return refilled(old, min(raw[2], MOST_BEGUN), raw[1])
      end
      -- Windows, of which those of a calendar may be an hour longer than their period.
      if raw[1] + millis + 3600 * SECOND > now then return min(raw[2], MOST_BEGUN) end
      return 0
    end
    local mine, others = {}, {}
    for _, r in ipairs(ask.rates) do mine[r.field] = true end
    for index = 1, #all, 2 do
      local kind, period = match(all[index], '^([swfckid])(%d+)$')
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
          local ticks = min(units, 2 * MOST_COUNT) * r.millis
          made.cost_m, made.cost_t = floor(ticks / r.count), ticks % r.count
        end
        r.rules.see(made)
        r.rules.charge(made, units, true)
        r.raw = made.raw
      end
    end
  end

  -- Lengthens the life of a key to a moment.
  local function keep(name, moment, is_new)
    local left = moment - now + SLACK
    if is_new or redis.call('PTTL', name) < left then redis.call('PEXPIRE', name, decimal(left)) end
  end

  -- Logs, built when a call first names one.
  local log
  local function build_log()
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
      high = min(high, ask.len)
      low = min(low, high)
      if high > low and entry(ask, high - 1) > moment then return high end
      while low < high do
        local middle = floor((low + high) / 2)
        if entry(ask, middle) > moment then low = middle + 1 else high = middle end
      end
      return low
    end
    local rules = {}
    function rules.open(ask)
      ask.known, ask.entered = {}, 0
      ask.len = min(get(ask, 'LLEN', ask.key), ask.entries)
      -- As long as a step back of up to a day is waited out, entries are in order. A longer one starts anew.
      if ask.len > 0 and entry(ask, 0) > now_up + DAY then ask.len, ask.stale = 0, true end
      ask.at = now_up
      if ask.len > 0 then ask.at = max(ask.at, entry(ask, 0)) end
    end
    function rules.fits(ask, r)
      local room = r.count - ask.cost
      return room >= 0 and (ask.len <= room or entry(ask, room) <= now - r.millis)
    end
    -- The latest entry; the one that is waited for and the oldest that counts, each with its age and one, or zero for none.
    function rules.append(ask, reply)
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
        local waits = min(used, r.count)
        if refuses then waits = room + 1 end
        reply[#reply + 1] = latest
        reply[#reply + 1] = waits
        reply[#reply + 1] = waits > 0 and entry(ask, waits - 1) or 0
        reply[#reply + 1] = used
        reply[#reply + 1] = used > 0 and entry(ask, used - 1) or 0
      end
    end
    -- Enters the ask's cost on top, as far as it fits into the log, and records whether that pushes out what counts.
    function rules.enter(ask)
      local used = later(ask, now - ask.longest, 0, ask.len)
      ask.spilled = used + ask.cost > ask.entries
      local entered = min(ask.cost, ask.entries)
      ask.len = min(ask.len + entered, ask.entries)
      ask.entered = entered
    end
    function rules.settle(ask)
      -- A log that stands for more than it shows gives nothing back. Entries of one moment are the same.
      if ask.stale or get(ask, 'HGET', ask.beside, 'spilled') then return end
      ask.given_back = ask.rates[1].left[1]
    end
    -- Units of the longest log in the call, and its runs: how many units, and the moment of each.
    function rules.restore(ask)
      local units, runs = 0, nil
      for _, r in ipairs(ask.rates) do
        local told = min(r.runs[1][1] + r.runs[2][1] + r.runs[3][1], ask.entries)
        if told > units then units, runs = told, r.runs end
      end
      if units > later(ask, now - ask.longest, 0, ask.len) then ask.runs = runs end
    end
    function rules.write(ask, least)
      local units, moment = {}, decimal(ask.at)
      for unit = 1, ask.entered do units[unit] = moment end
      redis.call('LPUSH', ask.key, unpack(units))
      redis.call('LTRIM', ask.key, 0, (ask.stale and ask.entered or ask.entries) - 1)
      local due = max(ask.at + ask.longest, least)
      if ask.spilled then
        redis.call('HSET', ask.beside, 'spilled', 1)
        keep(ask.beside, due)
      else
        redis.call('HDEL', ask.beside, 'spilled')
      end
      keep(ask.key, due)
    end
    -- Writes runs of units in place of what a log holds.
    function rules.write_runs(ask)
      local old, latest = redis.call('LLEN', ask.key), 0
      for _, run in ipairs(ask.runs) do
        local units, moment = {}, decimal(run[2])
        for unit = 1, min(run[1], ask.entries) do units[unit] = moment end
        if #units > 0 then
          redis.call('RPUSH', ask.key, unpack(units))
          latest = max(latest, run[2])
        end
      end
      redis.call('LTRIM', ask.key, old, old + ask.entries - 1)
      keep(ask.key, latest + ask.longest)
      ask.known, ask.len = {}, min(redis.call('LLEN', ask.key), ask.entries)
    end
    function rules.give_back(ask)
      redis.call('LREM', ask.key, decimal(ask.cost), decimal(ask.given_back))
      ask.known, ask.len = {}, min(redis.call('LLEN', ask.key), ask.entries)
    end
    return rules
  end

  -- Makes a key count at least what a gateway remembers.
  local function restore(ask)
    if ask.entries > 0 then return log.restore(ask) end
    -- Of windows from the first request the earlier one goes on, if it lasts still.
    local function merged_windows(r, one, other)
      if one[1] < other[1] then one, other = other, one end
      local most = max(one[2], other[2])
      if one[1] == other[1] or r.kind == 'i' then return { one[1], most, 0 } end
      if r.kind == 'f' and now < other[1] + r.millis then return { other[1], most, 0 } end
      return one
    end
    -- At least what either of two fields counts, and no more than both.
    local function merged(r, one, other)
      if not one or other[1] == 0 then return one or (other[1] > 0 and other) or nil end
      if r.kind == 'd' then
        if less(one[1], one[2], other[1], other[2]) then one, other = other, one end
        return { one[1], one[2], max(generation(one), generation(other)) }
      end
      if r.kind ~= 's' then return merged_windows(r, one, other) end
      if one[1] < other[1] then one, other = other, one end
      local start, window = one[1] - one[1] % r.period, other[1] - other[1] % r.period
      if start == window then return { one[1], max(one[2], other[2]), max(one[3], other[3]) } end
      if start - r.period == window then return { one[1], max(one[2], other[3]), one[3] } end
      return one
    end
    -- When a field stops counting.
    local function due_of(r)
      if r.kind == 's' then return (r.raw[1] - r.raw[1] % r.period + 2 * r.period) * SECOND end
      if r.kind == 'd' then return r.raw[1] + 1 end
      if r.kind == 'i' then return r.raw[1] + max(ceil(r.raw[2] / r.count), 1) * r.millis end
      -- Windows of a calendar may be an hour longer than their period.
      return r.raw[1] + r.millis + (r.kind == 'c' and 3600 * SECOND or 0)
    end
    for _, r in ipairs(ask.rates) do
      r.raw = merged(r, r.raw, r.left)
      if r.raw then r.due = due_of(r) end
      ask.restored = ask.restored or r.due > now
    end
  end

  local function read_rate(ask, mode)
    local at = argument
    argument = at + 4
    local period = tonumber(ARGV[at + 4])
    -- All that a rate of the default kind holds, so that its table does not grow.
    local r = {
      kind = ARGV[at + 1], field = ARGV[at + 2], count = tonumber(ARGV[at + 3]), period = period, millis = period * SECOND,
      rules = false, raw = false, refuses = false, lives = 0, due = 0, stamp = 0, before = 0, current = 0, elapsed = 0,
    }
    if ask.longest < r.millis then ask.longest = r.millis end
    if ask.entries == 0 then
      local rules = kinds[r.kind] or rules_of(r.kind)
      r.rules = rules
      if rules.read then rules.read(r) end
    end
    if mode == 'restore' and ask.entries > 0 then
      r.runs = { { number(), number() }, { number(), number() }, { number(), number() } }
    elseif mode == 'settle' or mode == 'restore' then
      r.left = { number(), number(), number() }
    end
    return r
  end
  local function read_ask(mode, place)
    local at = argument
    argument = at + 3
    local entries, name = tonumber(ARGV[at + 3]), next_key()
    local ask = {
      place = place, key = name, beside = name, cost = tonumber(ARGV[at + 2]), entries = entries, longest = 0, rates = false,
      charged = false, node = false, is_new = false, outdated = false,
    }
    if entries > 0 then
      log = log or build_log()
      ask.beside = next_key()
    end
    if mode == 'push' then ask.node, ask.push = '#' .. text(), number() end
    if mode == 'settle' then ask.made = number() end
    local rates = { read_rate(ask, mode) }
    for index = 2, tonumber(ARGV[at + 1]) do rates[index] = read_rate(ask, mode) end
    ask.rates = rates
    if entries > 0 then
      log.open(ask)
      return ask
    end
    local missing = false
    if #rates == 1 then
      local got = get(ask, 'HGET', name, rates[1].field)
      rates[1].raw, missing = fields(got), not got
    else
      local names = {}
      for index, r in ipairs(rates) do names[index] = r.field end
      local got = get(ask, 'HMGET', name, unpack(names))
      for index, r in ipairs(rates) do
        r.raw = fields(got[index])
        missing = missing or not got[index]
      end
    end
    if missing and mode ~= 'settle' and mode ~= 'restore' then convert(ask) end
    return ask
  end

  -- Returns true if every rate has room, and marks those that have none.
  local function judge(ask)
    local fits = true
    for _, r in ipairs(ask.rates) do
      if ask.entries > 0 then
        r.refuses = not log.fits(ask, r)
      else
        r.rules.see(r)
        r.refuses = not r.rules.fits(r, ask.cost)
      end
      fits = fits and not r.refuses
    end
    return fits
  end
  local function charge(ask, forced)
    ask.charged = true
    if ask.entries > 0 then return log.enter(ask) end
    for _, r in ipairs(ask.rates) do
      if forced then r.rules.see(r) end
      r.rules.charge(r, ask.cost, forced)
    end
  end
  local function settle(ask)
    if ask.entries > 0 then return log.settle(ask) end
    for _, r in ipairs(ask.rates) do
      if r.raw then r.rules.undo(r, ask.cost, r.left, ask.made) end
    end
    ask.settled = true
  end
  -- Appends which rates refuse, and the numbers of each.
  local function append(ask, reply)
    local refusing, at = 0, #reply + 1
    for index, r in ipairs(ask.rates) do
      if r.refuses then refusing = refusing + 2 ^ (index - 1) end
    end
    reply[at] = refusing
    if ask.entries > 0 then return log.append(ask, reply) end
    for _, r in ipairs(ask.rates) do
      local raw = r.raw
      if raw then
        reply[at + 1], reply[at + 2], reply[at + 3] = raw[1], raw[2], raw[3]
      else
        reply[at + 1], reply[at + 2], reply[at + 3] = 0, 0, 0
      end
      at = at + 3
    end
  end

  -- A write that is refused (read only, out of memory) is the first one, and ends the call with nothing written: commands that
  -- take memory come first, and Redis checks once a script that there is any.
  local function write_fields(ask, least)
    local rates, due, lives = ask.rates, least, 0
    for _, r in ipairs(rates) do due, lives = max(due, r.due), max(lives, r.lives) end
    if #rates == 1 then
      local r = rates[1]
      if r.raw then redis.call('HSET', ask.key, r.field, packed(r.raw)) end
    else
      local set = {}
      for _, r in ipairs(rates) do
        if r.raw then
          set[#set + 1] = r.field
          set[#set + 1] = packed(r.raw)
        end
      end
      if #set > 0 then redis.call('HSET', ask.key, unpack(set)) end
    end
    if ask.outdated then
      redis.call('HDEL', ask.key, unpack(ask.outdated))
      -- What was converted from them was not in the store.
      lives = 0
    end
    if due > lives then keep(ask.key, due, ask.is_new) end
  end
  -- Records a push, and drops those that no node repeats any more.
  local function remember(ask)
    if ask.is_new_node and redis.call('HLEN', ask.beside) > MANY_PUSHES then
      local all = redis.call('HGETALL', ask.beside)
      for index = 1, #all, 2 do
        local made = string.find(all[index], '^#') and match(all[index + 1], ' (%d+)$')
        if made and tonumber(made) + OLD_PUSH < second then redis.call('HDEL', ask.beside, all[index]) end
      end
    end
    redis.call('HSET', ask.beside, ask.node, decimal(ask.push) .. ' ' .. decimal(second))
    if ask.entries > 0 then keep(ask.beside, now + PUSH_MEMORY) end
  end
  local function write(ask)
    if ask.charged then
      local least = ask.node and now + PUSH_MEMORY or 0
      if ask.entries > 0 then log.write(ask, least) else write_fields(ask, least) end
      if ask.node then remember(ask) end
    elseif ask.settled or ask.restored then
      write_fields(ask, 0)
    elseif ask.runs then
      log.write_runs(ask)
    elseif ask.given_back then
      log.give_back(ask)
    end
  end

  -- Decides an ask that is not judged, and returns the code of the answer.
  local function apply(ask, mode)
    if mode == 'force' then
      charge(ask, true)
      return CHARGED
    end
    if mode == 'push' then
      -- A node's pushes of a key are numbered upwards, and one is sent again until it is answered or given up. So a number
      -- that is not above the last one seen has been charged; a push that was given up never comes again.
      local seen = get(ask, 'HGET', ask.beside, ask.node)
      ask.is_new_node = not seen
      seen = tonumber(seen and match(seen, '^(%d+) ') or -1)
      if ask.push > seen then
        charge(ask, true)
        return CHARGED
      end
    elseif mode == 'settle' then
      settle(ask)
    elseif mode == 'restore' then
      restore(ask)
    end
    return DONE
  end

  -- Runs one call, and returns its answer.
  local epochs = {}
  local function run(last_key)
    local mode = text()
    -- A store that was emptied decides nothing before the gateways have restored it.
    if mode == 'guarded' then
      local epoch, marker = text(), next_key()
      local there = epochs[marker]
      if there == nil then
        there = redis.pcall('GET', marker)
        epochs[marker] = there
      end
      if there ~= epoch then return head(EMPTIED) end
      mode = text()
    end
    -- An operator clears a key: nothing is decided.
    if mode == 'forget' then
      redis.call('DEL', unpack(KEYS, key + 1, last_key))
      return head(DONE)
    end
    -- Everything is read before anything is written.
    local asks, code = {}, NOT_CHARGED
    while key < last_key do asks[#asks + 1] = read_ask(mode, #asks) end
    if mode == 'decide' or mode == 'peek' then
      local fits = true
      for _, ask in ipairs(asks) do fits = judge(ask) and fits end
      if mode == 'decide' and fits then
        code = CHARGED
        for _, ask in ipairs(asks) do charge(ask, false) end
      end
    else
      for _, ask in ipairs(asks) do code = apply(ask, mode) end
    end
    local shows_result = mode == 'settle' or mode == 'restore'
    local reply = head(code)
    if not shows_result then
      for _, ask in ipairs(asks) do append(ask, reply) end
    end
    for _, ask in ipairs(asks) do write(ask) end
    if shows_result then
      for _, ask in ipairs(asks) do append(ask, reply) end
    end
    reply[4] = unreadable
    return reply
  end

  -- The answer of a call that failed. An error of Redis 7 and later begins with its code, one of an earlier Redis with the place.
  local function failure(reply)
    if verdict then return verdict end
    local trouble = tostring(type(reply) == 'table' and reply.err or reply)
    if not string.find(trouble, '^%u+ ') then trouble = 'ERR ' .. trouble end
    return { err = trouble }
  end

  if ARGV[1] ~= 'batch' then
    local done, reply = pcall(run, #KEYS)
    return done and reply or failure(reply)
  end
  -- Calls that have nothing to do with each other, each all or nothing by itself: how many, then before each the numbers of its
  -- keys and arguments. The answer of one that fails is its error.
  argument = 1
  local replies = {}
  for place = 1, number() do
    local last_key, last_argument = number(), number()
    last_key, last_argument = key + last_key, argument + last_argument
    unreadable, verdict = 0, nil
    local done, reply = pcall(run, last_key)
    if not done then reply = failure(reply) end
    replies[place] = reply
    key, argument = last_key, last_argument
    -- Of two answers about a key the later one is to be known by its time. A run takes longer than that.
    micros = micros + 1
  end
  return replies
end
return script()
