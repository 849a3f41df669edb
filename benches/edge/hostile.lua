-- The same with a name of 5,200 letters that are dear to normalize.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
wrk.body = string.rep("\239\183\186", 5200) .. "=&phone=1"
