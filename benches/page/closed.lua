-- Requests to the routes /closed0, /closed1, …, in turn: each has a limit of its own.
local at, limits = 0, tonumber(os.getenv("LIMITS"))
request = function()
  at = (at + 1) % limits
  return wrk.format("GET", "/closed" .. at)
end
