#!/usr/bin/env bash
# What do clients get from an origin at four times what it can do?
#
# The origin (benches/workers.rs) works on 20 requests at a time, 50 ms each: 400 a second, whatever else the machine does. One heavy client sends
# 1,560 requests a second over 400 connections, forty light ones together 40. An answer is of use within 250 ms of the moment at which its request was
# due. Each round measures every way to bound the requests at the origin, one after the other, each with a gateway of its own that had its time to
# settle; ratios are formed inside the round.
#
# Loopback only, a temporary directory, and nothing is ended but what was started here.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=3 seconds=10 settle=15 write=no
connections=440 # of all clients, for the report
usage() { echo "usage: benches/overload.sh [--rounds N] [--seconds N] [--settle N] [--write]   (3 rounds of 10 s behind 15 s; --write updates docs/benchmarks.md)"; }
while [ $# -gt 0 ]; do
    case "$1" in
    --rounds) rounds=$2 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    --settle) settle=$2 && shift 2 ;;
    --write) write=yes && shift ;;
    *) usage >&2 && exit 64 ;;
    esac
done

needs="cargo curl" example=paced
. benches/processes.sh
cargo build --release --locked --example workers >&2

free_port origin_port
mkdir "$dir/logs"
# shellcheck disable=SC2154 # set by free_port
start origin any "$origin_port" "$release/examples/workers" --listen "127.0.0.1:$origin_port" --workers 20 --millis 50

ways="none right wrong adaptive queue"
lines_of() { # WAY
    case "$1" in
    none) ;;
    right) echo 'circuit_breaker = { max_requests = 20 }' ;;
    wrong) echo 'circuit_breaker = { max_requests = 200 }' ;;
    adaptive) echo 'adaptive_concurrency = {}' ;;
    queue)
        echo 'adaptive_concurrency = {}'
        echo 'circuit_breaker = { max_requests = 1000, max_pending = 20, pending_timeout = "100ms", queue_order = "fair" }'
        ;;
    esac
}

# Sends load for so long. "admitted N … in_time N" of each kind of client is left in heavy and light.
load() { # SECONDS
    local all="--to 127.0.0.1:$sluicegate_port --seconds $1 --deadline 250"
    # shellcheck disable=SC2086 # several words
    "$release/examples/paced" $all --network 20 --clients 1 --rate 1560 --connections 400 >"$dir/heavy" &
    local heavy=$!
    # shellcheck disable=SC2086 # as above
    "$release/examples/paced" $all --network 30 --clients 40 --rate 40 --connections 40 >"$dir/light"
    wait "$heavy"
}

value() { # FILE NAME
    tr ' ' '\n' <"$dir/$1" | grep -A1 "^$2\$" | tail -n 1
}

# Appends "round way heavy_in_time light_in_time light_p99_us limit" to the results.
measure() { # ROUND WAY
    free_port sluicegate_port
    free_port admin_port
    # shellcheck disable=SC2154 # set by free_port
    sed -e "s|{dir}|$dir|g" -e "s|{sluicegate}|$sluicegate_port|g" -e "s|{admin}|$admin_port|g" -e "s|{origin}|$origin_port|g" \
        benches/overload/sluicegate.toml >"$dir/template.toml"
    lines_of "$2" >"$dir/lines"
    sed -e "/^{lines}$/r $dir/lines" -e '/^{lines}$/d' "$dir/template.toml" >"$dir/sluicegate.toml"
    start "sluicegate-$2" any "$sluicegate_port" "$release/sluicegate" run --config "$dir/sluicegate.toml"
    local gateway=$started
    load "$settle"
    load "$seconds"
    local limit
    limit=$(curl -s "http://127.0.0.1:$admin_port/metrics" | sed -n 's/^sluicegate_origin_concurrency_limit{.*} //p')
    echo "$1 $2 $(value heavy in_time) $(value light in_time) $(value light p99_us) ${limit:--}" | tee -a "$dir/results" >&2
    kill -KILL "$gateway" && wait "$gateway" 2>/dev/null || true
    pids="${pids% "$gateway"}"
}

echo "round way heavy_in_time light_in_time light_p99_us limit" >&2
for round in $(seq "$rounds"); do
    for way in $ways; do measure "$round" "$way"; done
done

report() {
    measured | sed 's|wrk with [0-9]* connections|'"one heavy client and forty light ones over $connections connections"'|; s| nginx[^,]*,||'
    awk -v seconds="$seconds" -v capacity=400 -v ways="$ways" "$median"'
        {
            rounds = $1 > rounds ? $1 : rounds
            good[$2, $1] = ($3 + $4) / seconds / capacity
            light[$2, $1] = 100 * $4 / (40 * seconds)
            late[$2, $1] = $5 / 1000
            limit[$2, $1] = $6
        }
        function span(values, way, format,    list, round, half) {
            for (round = 1; round <= rounds; round++) list[round] = values[way, round]
            half = median(list, rounds)
            return sprintf(format " (" format "–" format ")", half, list[1], list[rounds])
        }
        END {
            print "\n| bound | goodput, of what the origin can do | light clients served in time, % | their p99, ms | limit at the end |\n|---|---|---|---|---|"
            title["none"] = "none"; title["right"] = "`max_requests = 20`, the right number"; title["wrong"] = "`max_requests = 200`, ten times too large"
            title["adaptive"] = "`adaptive_concurrency`"; title["queue"] = "`adaptive_concurrency`, and a fair queue of 20 for 100 ms"
            count = split(ways, each, " ")
            for (i = 1; i <= count; i++) {
                way = each[i]
                printf "| %s | %s | %s | %s | %s |\n", title[way], span(good, way, "%.2f"), span(light, way, "%.1f"), span(late, way, "%.0f"), \
                    limit[way, 1] == "-" ? "–" : span(limit, way, "%d")
            }
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between overload "$dir/report"
