#!/usr/bin/env bash
# What do ten thousand idle and two thousand dripping connections cost everybody else?
#
# A client sends requests at a steady pace; its latencies count from the moment when each was due. In every round it is measured alone
# and beside the crowd (benches/crowd.rs), in alternating order, and the ratio is formed inside the round. The memory of the gateway is
# read before the crowd and with it. Dripping heads are cut off after `client_header_timeout` and come again, as an attacker's do.
#
# The gateway answers by itself: an origin would be one more who shares a core with the crowd. Client and crowd share one where there are two,
# so what requests took is told twice: as the client saw it, and as the gateway's log has it, from the head's arrival to the answer's end.
#
# The gateway runs on core 0, everything else elsewhere. Loopback only, a temporary directory, and nothing is ended but what was started
# here.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=3 seconds=12 rate=1000 connections=16 idle=10000 slow=2000 write=no
usage() {
    echo "usage: benches/crowd.sh [--rounds N] [--seconds N] [--rate N] [--idle N] [--slow N] [--write]"
    echo "       (3 rounds of 12 s at 1000 requests/s beside 10000 and 2000; --write updates docs/benchmarks.md)"
}
while [ $# -gt 0 ]; do
    case "$1" in
    --rounds) rounds=$2 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    --rate) rate=$2 && shift 2 ;;
    --idle) idle=$2 && shift 2 ;;
    --slow) slow=$2 && shift 2 ;;
    --write) write=yes && shift ;;
    *) usage >&2 && exit 64 ;;
    esac
done

needed=$((idle + slow + 1000))
ulimit -n "$(ulimit -Hn)" 2>/dev/null || true
files=$(ulimit -n)
[ "$files" = unlimited ] || [ "$files" -ge "$needed" ] ||
    { echo "this bench needs $needed open files a process, and $files are allowed: raise the hard limit" >&2 && exit 1; }

needs="taskset chrt cargo" example=paced
. benches/processes.sh
cargo build --release --locked --example crowd >&2

for name in sluicegate admin; do free_port "${name}_port"; done
body=$(printf '%01024d' 0)
mkdir "$dir/logs"
# shellcheck disable=SC2154 # set by free_port
sed -e "s|{dir}|$dir|g" -e "s|{body}|$body|g" -e "s|{sluicegate}|$sluicegate_port|g" -e "s|{admin}|$admin_port|g" \
    benches/crowd/sluicegate.toml >"$dir/sluicegate.toml"
start sluicegate "$proxy_core" "$sluicegate_port" "$release/sluicegate" run --config "$dir/sluicegate.toml"
gateway=$started

resident() { awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$gateway/status"; }

# The 99th percentile of what requests took by the gateway's log, in microseconds.
logged() {
    sed -n 's/.*"status":200,.*"duration_ms":\([0-9.]*\).*/\1/p' "$dir/logs/sluicegate-access.log" | sort -n |
        awk '{ took[NR] = $1 } END { printf "%d", 1000 * took[int(NR * 0.99)] }'
}

# Appends "round load p50_us p99_us max_us rss_mb cpu_percent logged_p99_us" to the results.
measure() { # ROUND LOAD
    local before after line
    : >"$dir/logs/sluicegate-access.log"
    before=$(ticks "$gateway")
    line=$(taskset -c "$wrk_core" "$release/examples/paced" --to "127.0.0.1:$sluicegate_port" --path /open \
        --rate "$rate" --connections "$connections" --seconds "$seconds")
    after=$(ticks "$gateway")
    # Lines are written at least once a second.
    sleep 2
    echo "$line" | awk -v round="$1" -v load="$2" -v rss="$(resident)" -v seconds="$seconds" \
        -v ticks=$((after - before)) -v hertz="$hertz" -v logged="$(logged)" '
        {
            for (field = 1; field < NF; field += 2) value[$field] = $(field + 1)
            if (value["admitted"] != value["sent"]) {
                print load ": " $0 ": not all were served" > "/dev/stderr"
                exit 1
            }
            printf "%d %s %d %d %d %s %.1f %d\n", round, load, value["p50_us"], value["p99_us"], value["max_us"], rss, \
                100 * ticks / hertz / seconds, logged
        }' | tee -a "$dir/results" >&2
}

crowd=""
gather() {
    # Whoever is measured goes first on a core that they share.
    chrt --idle 0 taskset -c "$origin_core" "$release/examples/crowd" --to "127.0.0.1:$sluicegate_port" \
        --idle "$idle" --slow "$slow" >"$dir/crowd.out" 2>"$dir/crowd.err" &
    crowd=$!
    pids="$pids $crowd"
    for _ in $(seq 600); do
        [ -s "$dir/crowd.out" ] && break
        kill -0 "$crowd" 2>/dev/null || break
        sleep 0.1
    done
    grep -q "^idle $idle slow $slow failed 0$" "$dir/crowd.out" ||
        { echo "the crowd is not whole: $(cat "$dir/crowd.out" "$dir/crowd.err")" >&2 && exit 1; }
}
disperse() {
    kill -KILL "$crowd" && wait "$crowd" 2>/dev/null || true
    pids="${pids% "$crowd"}"
    # The gateway has noticed when its files are closed.
    for _ in $(seq 100); do
        [ "$(find "/proc/$gateway/fd" -type l 2>/dev/null | wc -l)" -gt 500 ] || break
        sleep 0.1
    done
}

echo "round load p50_us p99_us max_us rss_mb cpu_percent logged_p99_us" >&2
for round in $(seq "$rounds"); do
    if [ $((round % 2)) -eq 1 ]; then
        measure "$round" alone
        gather && measure "$round" beside && disperse
    else
        gather && measure "$round" beside && disperse
        measure "$round" alone
    fi
done

report() {
    measured | sed 's|, [^,]*, wrk with [0-9]* connections|, '"$rate requests/s over $connections connections"'|'
    awk -v idle="$idle" -v slow="$slow" "$median"'
        { rounds = $1 > rounds ? $1 : rounds; for (field = 3; field <= 8; field++) value[$2, $1, field] = $field }
        function middle(load, field,    list, round) {
            for (round = 1; round <= rounds; round++) list[round] = value[load, round, field]
            return median(list, rounds)
        }
        function ratio(field,    list, round, half) {
            for (round = 1; round <= rounds; round++) list[round] = value["beside", round, field] / value["alone", round, field]
            half = median(list, rounds)
            return sprintf("%.2f (%.2f–%.2f)", half, list[1], list[rounds])
        }
        END {
            print "\n| | p50 µs | p99 µs | p99 µs by the log | CPU % of a core | RSS MB |\n|---|---|---|---|---|---|"
            printf "| alone | %d | %d | %d | %.1f | %.0f |\n", middle("alone", 3), middle("alone", 4), middle("alone", 8), \
                middle("alone", 7), value["alone", 1, 6]
            printf "| beside %d idle and %d dripping | %d | %d | %d | %.1f | %.0f |\n", idle, slow, middle("beside", 3), \
                middle("beside", 4), middle("beside", 8), middle("beside", 7), middle("beside", 6)
            printf "| ratio (min–max) | %s | %s | %s | %s | |\n", ratio(3), ratio(4), ratio(8), ratio(7)
            printf "\nA connection of the crowd takes %.1f KB.\n", (value["beside", 1, 6] - value["alone", 1, 6]) * 1024 / (idle + slow)
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between crowd "$dir/report"
