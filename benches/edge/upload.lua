-- An upload of 10 KB to the route that admits all.
wrk.method = "POST"
wrk.body = string.rep("0123456789abcdef", 640)
wrk.headers["Content-Type"] = "application/octet-stream"
