#!/usr/bin/env bash
# What do ten thousand idle and two thousand dripping connections cost everybody else?
#
# A client sends requests at a steady pace; its latencies count from the moment when each was due. In every round it is measured alone
# and beside the crowd (benches/crowd.rs), before the gateway and before nginx, in alternating order, and the ratio is formed inside the
# round. The memory of the server is read before the crowd and with it. Dripping heads are cut off after ten seconds by both and come
# again, as an attacker's do.
#
# Both answer by themselves: an origin would be one more who shares a core with the crowd. Client and crowd share one where there are two, so
# what the gateway's requests took is told twice: as the client saw it, and as the log has it, from the head's arrival to the answer's end.
#
# The server under measurement runs on core 0, everything else elsewhere. Loopback only, a temporary directory, and nothing is ended but what was started
# here.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=5 seconds=12 rate=1000 connections=16 idle=10000 slow=2000 write=no
usage() {
    echo "usage: benches/crowd.sh [--rounds N] [--seconds N] [--rate N] [--idle N] [--slow N] [--write]"
    echo "       (5 rounds of 12 s at 1000 requests/s beside 10000 and 2000; --write updates docs/benchmarks.md)"
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

needs="nginx taskset chrt cargo" example=paced
. benches/processes.sh
cargo build --release --locked --example crowd >&2

for name in sluicegate admin nginx; do free_port "${name}_port"; done
body=$(printf '%01024d' 0)
mkdir "$dir/logs" "$dir/files"
printf %s "$body" >"$dir/files/open"
# shellcheck disable=SC2154 # set by free_port
fill() { # TEMPLATE
    sed -e "s|{dir}|$dir|g" -e "s|{body}|$body|g" -e "s|{sluicegate}|$sluicegate_port|g" -e "s|{admin}|$admin_port|g" \
        -e "s|{nginx}|$nginx_port|g" "benches/crowd/$1" >"$dir/$1"
}
for template in sluicegate.toml nginx.conf; do fill "$template"; done
start sluicegate "$proxy_core" "$sluicegate_port" "$release/sluicegate" run --config "$dir/sluicegate.toml"
sluicegate_pid=$started
start nginx "$proxy_core" "$nginx_port" nginx -p "$dir" -e "$dir/nginx-error.log" -c "$dir/nginx.conf"
nginx_pid=$started

# Chooses who is measured: sets `server`, `port` and `pid`.
choose() { # SERVER
    local port_of="$1_port" pid_of="$1_pid"
    server=$1 port=${!port_of} pid=${!pid_of}
}

resident() { awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$pid/status"; }

# The 99th percentile of what requests took by the gateway's log, in microseconds; nginx counts in milliseconds.
logged() {
    [ "$server" = sluicegate ] || { echo 0 && return; }
    sed -n 's/.*"status":200,.*"duration_ms":\([0-9.]*\).*/\1/p' "$dir/logs/sluicegate-access.log" | sort -n |
        awk '{ took[NR] = $1 } END { printf "%d", 1000 * took[int(NR * 0.99)] }'
}

# Appends "round server load p50_us p99_us max_us rss_mb cpu_percent logged_p99_us" to the results.
measure() { # ROUND LOAD
    local before after line
    : >"$dir/logs/sluicegate-access.log"
    before=$(ticks "$pid")
    line=$(taskset -c "$wrk_core" "$release/examples/paced" --to "127.0.0.1:$port" --path /open \
        --rate "$rate" --connections "$connections" --seconds "$seconds")
    after=$(ticks "$pid")
    # Lines are written at least once a second.
    sleep 2
    echo "$line" | awk -v round="$1" -v server="$server" -v load="$2" -v rss="$(resident)" -v seconds="$seconds" \
        -v ticks=$((after - before)) -v hertz="$hertz" -v logged="$(logged)" '
        {
            for (field = 1; field < NF; field += 2) value[$field] = $(field + 1)
            if (value["admitted"] != value["sent"]) {
                print server " " load ": " $0 ": not all were served" > "/dev/stderr"
                exit 1
            }
            printf "%d %s %s %d %d %d %s %.1f %d\n", round, server, load, value["p50_us"], value["p99_us"], value["max_us"], \
                rss, 100 * ticks / hertz / seconds, logged
        }' | tee -a "$dir/results" >&2
}

crowd=""
gather() {
    # Whoever is measured goes first on a core that they share.
    chrt --idle 0 taskset -c "$origin_core" "$release/examples/crowd" --to "127.0.0.1:$port" \
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
    # The server has noticed when its files are closed.
    for _ in $(seq 100); do
        [ "$(find "/proc/$pid/fd" -type l 2>/dev/null | wc -l)" -gt 500 ] || break
        sleep 0.1
    done
}

beside() { # ROUND
    gather && measure "$1" beside && disperse
}

echo "round server load p50_us p99_us max_us rss_mb cpu_percent logged_p99_us" >&2
for round in $(seq "$rounds"); do
    for one in sluicegate nginx; do
        choose "$one"
        if [ $((round % 2)) -eq 1 ]; then
            measure "$round" alone
            beside "$round"
        else
            beside "$round"
            measure "$round" alone
        fi
    done
done

report() {
    measured | sed 's|wrk with [0-9]* connections|'"$rate requests/s over $connections connections"'|'
    awk -v idle="$idle" -v slow="$slow" "$median"'
        { rounds = $1 > rounds ? $1 : rounds; for (field = 4; field <= 9; field++) value[$2, $3, $1, field] = $field }
        function middle(server, load, field,    list, round) {
            for (round = 1; round <= rounds; round++) list[round] = value[server, load, round, field]
            return median(list, rounds)
        }
        function ratio(server, field,    list, round, half) {
            for (round = 1; round <= rounds; round++)
                list[round] = value[server, "beside", round, field] / value[server, "alone", round, field]
            half = median(list, rounds)
            return sprintf("%.2f (%.2f–%.2f)", half, list[1], list[rounds])
        }
        function row(title, server, load, rss) {
            printf "| %s | %d | %d | %s | %.1f | %.0f |\n", title, middle(server, load, 4), middle(server, load, 5), \
                server == "nginx" ? "–" : middle(server, load, 9), middle(server, load, 8), rss
        }
        function rows(title, server) {
            row(title " alone", server, "alone", value[server, "alone", 1, 7])
            row("beside " idle " idle and " slow " dripping", server, "beside", middle(server, "beside", 7))
            printf "| ratio (min–max) | %s | %s | %s | %s | |\n", ratio(server, 4), ratio(server, 5), \
                server == "nginx" ? "–" : ratio(server, 9), ratio(server, 8)
        }
        function each(server) {
            return (value[server, "beside", 1, 7] - value[server, "alone", 1, 7]) * 1024 / (idle + slow)
        }
        END {
            print "\n| | p50 µs | p99 µs | p99 µs by the log | CPU % of a core | RSS MB |\n|---|---|---|---|---|---|"
            rows("Sluicegate", "sluicegate")
            rows("nginx", "nginx")
            printf "\nA connection of the crowd takes %.1f KB, in nginx %.1f KB.\n", each("sluicegate"), each("nginx")
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between crowd "$dir/report"
