-- Asks Sluicegate about a request, and answers the client where it is rejected: the action lua.sluicegate of haproxy.cfg.

local SLUICEGATE = "http://127.0.0.1:9000/"
-- Milliseconds.
local TIMEOUT = 5000

-- Fields of the client that are not part of the question: those that this file writes, and those about the connection and the body.
local OWN = {
    ["connection"] = true,
    ["content-length"] = true,
    ["expect"] = true,
    ["host"] = true,
    ["keep-alive"] = true,
    ["te"] = true,
    ["trailer"] = true,
    ["transfer-encoding"] = true,
    ["upgrade"] = true,
    ["x-forwarded-for"] = true,
    ["x-forwarded-host"] = true,
    ["x-forwarded-method"] = true,
    ["x-forwarded-uri"] = true,
}

local function question(txn)
    local fields = {
        ["host"] = { "sluicegate" },
        ["x-forwarded-method"] = { txn.sf:method() },
        ["x-forwarded-host"] = { txn.sf:req_fhdr("host") },
        ["x-forwarded-uri"] = { txn.sf:pathq() },
        ["x-forwarded-for"] = { txn.sf:src() },
    }
    for name, values in pairs(txn.http:req_get_headers()) do
        if not OWN[name] then
            fields[name] = {}
            for at = 0, #values do
                fields[name][at + 1] = values[at]
            end
        end
    end
    return fields
end

local function first(answer, name)
    local values = answer.headers and answer.headers[name]
    return values and values[0]
end

core.register_action("sluicegate", { "http-req" }, function(txn)
    local answer = core.httpclient():get { url = SLUICEGATE, headers = question(txn), timeout = TIMEOUT }
    if answer.status >= 200 and answer.status < 300 then
        for variable, name in pairs { ["txn.ratelimit_policy"] = "ratelimit-policy", ["txn.ratelimit"] = "ratelimit" } do
            local value = first(answer, name)
            if value then
                txn:set_var(variable, value)
            end
        end
        return
    end
    -- While Sluicegate does not answer, clients get 503. To let all requests pass meanwhile, return here where answer.status is 503.
    local reply = txn:reply { status = answer.status, body = answer.body }
    for _, name in ipairs { "content-type", "retry-after", "ratelimit-policy", "ratelimit" } do
        local value = first(answer, name)
        if value then
            reply:add_header(name, value)
        end
    end
    txn:done(reply)
end)
