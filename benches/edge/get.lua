-- A request with a key in a field, whether anybody reads it or not.
wrk.headers["X-Api-Key"] = "7b0c2f8e5a914d63"
