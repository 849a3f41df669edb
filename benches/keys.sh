#!/usr/bin/env bash
# What does it cost a request to be limited, by what the limit counts by?
#
# One gateway with a route for each case: no limit, a limit by address, by a header field, by a member of a JSON body, by a parameter of a
# form; and a bare Pingora proxy. wrk sends GETs, then POSTs of 200 bytes, then forms of 15.6 KB, plain and hostile ones, all of which are admitted and answered with 1 KB by a local nginx. What a body costs
# by itself is in the POSTs to routes that do not read it, so bodies are compared with those. As in edge.sh the figure is CPU
# time of the proxy's process, and ratios are formed inside a round.
#
# The proxy runs on core 0, origin and wrk elsewhere. Loopback only, a temporary directory, and nothing is ended but what was
# started here. benches/README.md says how to read the tables.
set -euo pipefail
cd "$(dirname "$0")/.."
. benches/options.sh

rounds=5 seconds=3 connections=32 write=no
usage() {
    echo "usage: benches/keys.sh [--rounds N] [--seconds N] [--write]   (5 rounds of 3 s; --write updates docs/benchmarks.md)"
}
read_options "rounds seconds" "write" "$@"

. benches/processes.sh

edge_files origin.conf keys.toml
start origin $origin_core "$origin_port" nginx -p "$dir" -e "$dir/origin-error.log" -c "$dir/origin.conf"
start sluicegate $proxy_core "$sluicegate_port" "$release/sluicegate" run --config "$dir/keys.toml"
sluicegate_pid=$started
start bare $proxy_core "$bare_port" "$release/bare" "127.0.0.1:$bare_port" "127.0.0.1:$origin_port"
bare_pid=$started

# One run: appends "round method route cpu_us rps p50_us p99_us" to the results.
measure() { # ROUND METHOD ROUTE
    local round=$1 method=$2 route=$3 peer=sluicegate port pid before after
    [ "$route" != bare ] || peer=bare
    port=${peer}_port pid=${peer}_pid
    local url="http://127.0.0.1:${!port}/$route"
    taskset -c $wrk_core wrk -t1 -c"$connections" -d1s -s "benches/edge/$method.lua" "$url" >/dev/null
    before=$(ticks "${!pid}")
    taskset -c $wrk_core wrk -t1 -c"$connections" -d"${seconds}s" --latency -s "benches/edge/$method.lua" "$url" >"$dir/wrk"
    after=$(ticks "${!pid}")
    find "$dir" \( -name '*access.log' -o -name '*.out' \) -exec truncate -s 0 {} +
    awk -v round="$round" -v method="$method" -v route="$route" -v ticks=$((after - before)) -v hertz="$hertz" "$microseconds"'
        / requests in / { requests = $1 }
        /^Requests\/sec/ { rps = $2 }
        /Non-2xx or 3xx/ { refused = $NF }
        /Socket errors/ { errors = $0 }
        $1 == "50%" { p50 = us($2) }
        $1 == "99%" { p99 = us($2) }
        END {
            if (requests == 0 || refused > requests / 1000 || errors != "") {
                printf "%s %s: %d of %d answers are not as they should be. %s\n", method, route, refused, requests, errors \
                    > "/dev/stderr"
                exit 1
            }
            printf "%d %s %s %.2f %.0f %.0f %.0f\n", round, method, route, ticks / hertz * 1e6 / requests, rps, p50, p99
        }' "$dir/wrk" | tee -a "$dir/results" >&2
}

echo "round method route cpu_us requests/s p50_us p99_us" >&2
for round in $(seq "$rounds"); do
    for method in get post form hostile; do
        case "$method" in
        get) order="bare none address header" ;;
        post) order="bare none address body" ;;
        *) order="bare none form" ;;
        esac
        # shellcheck disable=SC2086 # one word a route
        order=$(in_turn "$round" $order)
        for route in $order; do measure "$round" "$method" "$route"; done
    done
done

report() {
    measured
    awk "$compared"'
        { keep() }
        END {
            title["none"] = "no limit"; title["address"] = "`client.ip`"
            title["header"] = "`header.x-api-key`"; title["body"] = "`body.json.phone`"
            title["form"] = "`body.form.phone`"
            name["get"] = "GET"; name["post"] = "POST of 200 bytes"
            name["form"] = "form of 15.6 KB"; name["hostile"] = "hostile form of 15.6 KB"
            cases = split("get none,get address,get header,post none,post address,post body," \
                "form none,form form,hostile none,hostile form", list, ",")
            print "\n| request | limit by | CPU µs a request | requests/s | p99 µs | CPU to no limit (min–max) | CPU to bare Pingora (min–max) |"
            print "|---|---|---|---|---|---|---|"
            for (at = 1; at <= cases; at++) {
                split(list[at], words, " "); method = words[1]; route = words[2]
                printf "| %s | %s | %.1f | %d | %d | %s | %s |\n", name[method], title[route], middle(method, route, "cpu"), \
                    middle(method, route, "rate"), middle(method, route, "p99"), \
                    ratio(method, route, "none", "cpu"), ratio(method, route, "bare", "cpu")
            }
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between keys "$dir/report"
