-- Names clients in X-Forwarded-For, in turn, and prints the answers of each status. docs/load-testing.md has the commands:
-- wrk … -s benches/wrk/clients.lua URL            one client, without a name
-- wrk … -s benches/wrk/clients.lua URL -- 1000    a thousand clients
-- A gateway takes the names only where [client] trusted_proxies has the address of wrk.

-- The addresses of 198.18.0.0/15, which RFC 2544 reserves for benchmarks.
local most_clients = 131072
local threads = {}

local function address(number)
  return string.format("198.%d.%d.%d", 18 + math.floor(number / 65536), math.floor(number / 256) % 256, number % 256)
end

-- Runs in the main program, once for each thread.
function setup(thread)
  thread:set("thread_number", #threads)
  threads[#threads + 1] = thread
end

-- Runs in each thread. Formats the request of each client once, so that a request costs one access to a table.
function init(args)
  local clients = tonumber(args[1] or 0)
  if not clients or clients < 0 or clients > most_clients then
    error("the number of clients is at most " .. most_clients)
  end
  counts = {}
  requests = {}
  for number = 0, clients - 1 do
    wrk.headers["X-Forwarded-For"] = address(number)
    requests[#requests + 1] = wrk.format()
  end
  if clients == 0 then
    requests[1] = wrk.format()
  end
  -- Each thread begins with another client.
  last = thread_number % #requests
end

function request()
  last = last % #requests + 1
  return requests[last]
end

function response(status)
  counts[status] = (counts[status] or 0) + 1
end

-- Runs in the main program, at the end.
function done(summary)
  local sums = {}
  for _, thread in ipairs(threads) do
    for status, count in pairs(thread:get("counts")) do
      sums[status] = (sums[status] or 0) + count
    end
  end
  local statuses = {}
  for status in pairs(sums) do
    statuses[#statuses + 1] = status
  end
  table.sort(statuses)
  for _, status in ipairs(statuses) do
    io.write(string.format("status %d: %d, %.1f a second\n", status, sums[status], sums[status] * 1e6 / summary.duration))
  end
end
