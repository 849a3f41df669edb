-- The same with a body of 200 bytes of JSON.
wrk.method = "POST"
wrk.headers["X-Api-Key"] = "7b0c2f8e5a914d63"
wrk.headers["Content-Type"] = "application/json"
local open, close = '{"locale":"de-DE","client":{"app":"web","version":"4.2.0"},"note":"', '","phone":"+4915112345678"}'
wrk.body = open .. string.rep("a", 200 - #open - #close) .. close
