#!/usr/bin/env bash
# What do clients notice while the store is lost, and how much passes?
#
# Three gateways share one Redis, or a master and its replica under a Sentinel. Thirty clients ask five times what they may. After five
# seconds the server is killed and started again seven seconds later (killed), stopped and continued (stopped), or killed for good, and
# the replica promoted (promoted). What a decision took is what the access logs say: nothing else of a request waits for the store.
#
# Loopback only, a temporary directory, and nothing is ended but what was started here. benches/README.md says how to read the table.
set -euo pipefail
cd "$(dirname "$0")/.."

write=no row="" times=1
usage() {
    echo "usage: benches/outage.sh [--write] [--row \"WHAT MODE\" [--times N]]   (seven runs of 20 s and a window's begin, four minutes;" \
        "--write updates docs/benchmarks.md; --row \"stopped shared\" runs one row alone)"
}
while [ $# -gt 0 ]; do
    case "$1" in
    --write) write=yes && shift ;;
    --row) row=$2 && shift 2 ;;
    --times) times=$2 && shift 2 ;;
    *) usage >&2 && exit 64 ;;
    esac
done

needs="nginx redis-server redis-sentinel redis-cli curl cargo" example=paced
. benches/processes.sh
. benches/fleet/gateways.sh
seconds=20 hurt_after=5 heal_after=7 timeout_ms=20

# A server that keeps what it was told. Its process id is left in `started`.
start_server() { # NAME PORT OPTIONS...
    local name=$1 port=$2
    shift 2
    mkdir -p "$dir/$name"
    start "$name" any "$port" redis-server --port "$port" --bind 127.0.0.1 --save "" --appendonly yes --appendfsync always \
        --dir "$dir/$name" "$@"
}

start_sentinel() {
    mkdir -p "$dir/sentinel"
    printf '%s\n' "port $sentinel" "bind 127.0.0.1" "sentinel monitor gateway 127.0.0.1 $master 1" \
        "sentinel down-after-milliseconds gateway 500" "sentinel failover-timeout gateway 2000" >"$dir/sentinel/sentinel.conf"
    start sentinel any "$sentinel" redis-sentinel "$dir/sentinel/sentinel.conf"
    local try
    for try in $(seq 150); do
        redis-cli -p "$sentinel" sentinel master gateway | grep -A 1 -x num-slaves | grep -qx 1 && return
        sleep 0.1
    done
    echo "the sentinel does not see the replica (try $try)" >&2
    exit 1
}

# What happens to the store, beside the load.
hurt() { # WHAT
    sleep "$hurt_after"
    case $1 in
    killed)
        kill -KILL "$server" && sleep "$heal_after"
        # In this subshell: its server is ended by the caller, who finds it by its file.
        redis-server --port "$master" --bind 127.0.0.1 --save "" --appendonly yes --appendfsync always --dir "$dir/master" \
            --pidfile "$dir/again.pid" --daemonize yes >/dev/null
        ;;
    stopped) kill -STOP "$server" && sleep "$heal_after" && kill -CONT "$server" ;;
    promoted) kill -KILL "$server" ;;
    esac
}

# One run: appends "what mode requests other admitted peak slowest_us decision_us late" to the results.
measure() { # WHAT MODE
    local what=$1 mode=$2 number=3 store before origin_before beside=""
    for port in master replica sentinel; do free_port "$port"; done
    before=$pids
    start_server master "$master"
    server=$started
    # Its death is no news.
    disown "$server"
    store="url = \"redis://127.0.0.1:$master\""
    if [ "$what" = promoted ]; then
        start_server replica "$replica" --replicaof 127.0.0.1 "$master"
        start_sentinel
        store="sentinel = { master = \"gateway\", nodes = [\"127.0.0.1:$sentinel\"] }"
    fi
    [ "$mode" != local ] || number=1
    start_gateways "$number" "$mode" "$store\ntimeout = \"${timeout_ms}ms\""
    origin_before=$(counted)
    hurt "$what" &
    beside=$!
    "$release/examples/paced" --to "$addresses" --path /limited --seconds "$seconds" --clients 30 --rate 1500 >"$dir/paced"
    wait "$beside"
    local origin_after
    origin_after=$(counted)
    # The access logs are written within a second.
    sleep 1
    cat "$dir"/logs/gateway*.log | awk -v most=$(((timeout_ms + 5) * 1000)) '
        match($0, /"limits_us":[0-9.]+/) {
            took = substr($0, RSTART + 12, RLENGTH - 12) + 0
            if (took > longest) longest = took
            if (took > most) late++
        }
        END { printf "%d %d\n", longest, late }' >"$dir/decisions"
    # Those that were late, each with its gateway, its moment.
    for log in "$dir"/logs/gateway*.log; do
        awk -v most=$(((timeout_ms + 5) * 1000)) -v name="$(basename "$log" .log)" '
            match($0, /"limits_us":[0-9.]+/) && substr($0, RSTART + 12, RLENGTH - 12) + 0 > most {
                took = substr($0, RSTART + 12, RLENGTH - 12)
                match($0, /"time":"[^"]+"/)
                print "late:", name, substr($0, RSTART + 8, RLENGTH - 9), took, "us"
            }' "$log" >&2
    done
    stop_gateways
    # shellcheck disable=SC2046,SC2086 # one word a process
    { kill -KILL $(cat "$dir/again.pid" 2>/dev/null) ${pids#"$before"} ; wait ${pids#"$before"}; } 2>/dev/null || true
    rm -rf "$dir/again.pid" "$dir/master" "$dir/replica" "$dir/sentinel"
    pids=$before
    awk -v what="$what" -v mode="$mode" -v admitted=$((origin_after - origin_before - 1)) -v decisions="$(cat "$dir/decisions")" '{
            for (i = 1; i < NF; i += 2) got[$i] = $(i + 1)
            printf "%s %s %d %d %d %d %d %s\n", what, mode, got["sent"], got["other"], admitted, got["peak"], got["max_us"], decisions
        }' "$dir/paced" | tee -a "$dir/results" >&2
}

echo "what mode requests other admitted peak slowest_us decision_us late" >&2
if [ -n "$row" ]; then
    for _ in $(seq "$times"); do
        # shellcheck disable=SC2086 # two words
        measure $row
        awk '$1 == "cpu" { print "steal since the start, in ticks:", $9 }' /proc/stat >&2
    done
    exit
fi
measure never local
for what in killed stopped promoted; do
    for mode in shared-strict shared; do measure "$what" "$mode"; done
done

report() {
    echo "Measured $(date -u +%Y-%m-%d) at commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores," \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r)," \
        "Redis $(redis-server --version | sed 's/.* v=\([^ ]*\).*/\1/'), runs of $seconds s, limit 100 per 10s, timeout $timeout_ms ms."
    awk '
        NR == 1 { one = $5 }
        {
            title["never"] = "nothing, one gateway"; title["killed"] = "killed, and started again"
            title["stopped"] = "stopped (SIGSTOP), and continued"; title["promoted"] = "killed, its replica promoted"
            if (NR == 1) {
                print "\n| the store is | counters | requests | neither 200 nor 429 | admitted | of one gateway | most of one client in 10 s |" \
                    " longest decision ms | decisions over timeout + 5 ms | slowest request ms |"
                print "|---|---|---|---|---|---|---|---|---|---|"
            }
            printf "| %s | `%s` | %d | %d | %d | %.2f | %d | %.1f | %d | %.1f |\n", title[$1], $2, $3, $4, $5, $5 / one, $6, \
                $8 / 1000, $9, $7 / 1000
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between outage "$dir/report"
