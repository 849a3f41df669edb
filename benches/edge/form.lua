-- A form of 15.6 KB with names as sites have them.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
wrk.body = string.rep("field_17=value-17&", 866) .. "phone=%2B491511"
