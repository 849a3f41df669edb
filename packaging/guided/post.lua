-- A login: a number in a body of JSON.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"locale":"de-DE","client":{"app":"web","version":"4.2.0"},"phone":"+4915112345678"}'
