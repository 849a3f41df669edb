#!/usr/bin/env bash
# Does an hour of mixed traffic leave anything behind in the gateway: memory, descriptors, threads?
#
# Each minute has bursts over HTTP/1.1, with new connections for each request, uploads of 10 KB, answers of 100 KB, TLS 1.3, HTTP/2, rejections,
# clients that leave in the middle of an answer or of a head, and a reload of the configuration, with a steady load between them. At the end
# of each minute, when the connections of its clients are closed, resident memory, descriptors and threads of the process are read.
#
# Each burst counts the answers that were not as they should be. Loopback only, a temporary directory, and nothing is ended but what
# was started here.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=60 seconds=2 connections=32 rate=200 write=no
usage() {
    echo "usage: benches/soak.sh [--minutes N] [--seconds N] [--rate N] [--write]"
    echo "       (60 minutes with bursts of 2 s and 200 requests/s between them; --write updates docs/benchmarks.md)"
}
while [ $# -gt 0 ]; do
    case "$1" in
    --minutes) minutes=$2 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    --rate) rate=$2 && shift 2 ;;
    --write) write=yes && shift ;;
    *) usage >&2 && exit 64 ;;
    esac
done

needs="nginx wrk h2load openssl taskset curl cargo" example=paced
. benches/processes.sh

mkdir "$dir/www"
head -c 100000 /dev/zero | tr '\0' 0 >"$dir/www/large"
edge_files origin.conf sluicegate.toml
# shellcheck disable=SC2154 # set by edge_files
{
    start origin $origin_core "$origin_port" nginx -p "$dir" -e "$dir/origin-error.log" -c "$dir/origin.conf"
    start sluicegate $proxy_core "$sluicegate_port" "$release/sluicegate" run --config "$dir/sluicegate.toml"
    clear="http://127.0.0.1:$sluicegate_port" tls="https://127.0.0.1:$sluicegate_tls_port"
}
pid=$started
# shellcheck disable=SC2034 # for measured
rounds=1
measured=$(measured | sed 's/, [0-9]* rounds of .*/./')

# Runs wrk, and adds what it sent and what was wrong: "answers wrong". What wrk says of a wrong one is kept for the end.
burst() { # WANTED PATH ARGUMENT...
    local wanted=$1 url=$2
    shift 2
    taskset -c $wrk_core wrk -t1 -c"$connections" -d"${seconds}s" "$@" "$url" >"$dir/wrk"
    awk -v wanted="$wanted" '
        / requests in / { requests = $1 }
        /Non-2xx or 3xx/ { refused = $NF }
        /Socket errors/ { gsub(",", ""); errors = $4 + $6 + $8 + $10 }
        END { printf "%d %d\n", requests, (wanted == 429 ? requests - refused : refused) + errors }' "$dir/wrk" >>"$dir/answers"
    tail -n 1 "$dir/answers" | grep -q ' 0$' || sed -nE "s,^ *(Non-2xx.*|Socket errors.*),minute $minute; $url $*: \1,p" "$dir/wrk" >>"$dir/wrong"
}

streams() {
    taskset -c $wrk_core h2load --duration="$seconds" --clients=8 --max-concurrent-streams=16 "$clear/open" >"$dir/h2load"
    awk '/^requests:/ { printf "%d %d\n", $2, $2 - $8 }' "$dir/h2load" >>"$dir/answers"
}

leave() {
    local client
    for client in $(seq 20); do
        curl -s -m 0.05 --limit-rate 10k -o "$dir/none" "$clear/large" || true
        { printf 'GET /open HTTP/1.1\r\nHost: client%d' "$client" >"/dev/tcp/127.0.0.1/$sluicegate_port"; } 2>>"$dir/left.err" || true
    done
}

steady() { # SECONDS
    taskset -c $wrk_core "$release/examples/paced" --to "127.0.0.1:$sluicegate_port" --path /open --rate "$rate" --connections 4 \
        --seconds "$1" >"$dir/paced"
    awk '/^sent / { printf "%d %d\n", $2, $2 - $4 }' "$dir/paced" >>"$dir/answers"
}

# Reloads a configuration that differs from the last one.
reload() { # MINUTE
    sed "s/^rates = \[\"1000000 per 1s\"\]/rates = [\"$((1000000 + $1)) per 1s\"]/" "benches/edge/sluicegate.toml" >"$dir/next.toml"
    sed -e "s|{dir}|$dir|g" -e "s|{sluicegate}|$sluicegate_port|g" -e "s|{sluicegate_tls}|$sluicegate_tls_port|g" \
        -e "s|{admin}|$admin_port|g" -e "s|{origin}|$origin_port|g" "$dir/next.toml" >"$dir/next"
    mv "$dir/next" "$dir/sluicegate.toml"
}

# The one request that is admitted.
curl -sf -o "$dir/none" "$clear/closed"
echo "minute rss_mib descriptors threads answers wrong" >&2
for minute in $(seq 0 "$minutes"); do
    end=$((SECONDS + 60))
    burst 200 "$clear/open"
    burst 200 "$clear/open" -H "Connection: close"
    burst 200 "$clear/open" -s benches/edge/upload.lua
    burst 200 "$clear/large"
    burst 200 "$tls/open"
    burst 200 "$tls/open" -H "Connection: close"
    burst 429 "$clear/closed"
    streams
    leave
    reload "$minute"
    steady $((end - SECONDS > 2 ? end - SECONDS - 1 : 1))
    # The gateway's own view of a wrong one: no request of a burst should get 5xx.
    grep '"status":5' "$dir/logs/sluicegate-access.log" | tail -n 3 >>"$dir/wrong" || true
    truncate -s 0 "$dir/logs/sluicegate-access.log"
    sleep 1
    # The first minute warms up.
    echo "$minute $(awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$pid/status") $(find "/proc/$pid/fd" -mindepth 1 | wc -l)" \
        "$(awk '/^Threads/ { print $2 }' "/proc/$pid/status") $(awk '{ all += $1; wrong += $2 } END { print all, wrong }' "$dir/answers")" |
        tee -a "$dir/minutes" >&2
done

report() {
    echo "$measured"
    awk -v minutes="$minutes" '
        BEGIN { print "\n| minute | resident MiB | descriptors | threads | answers so far | not as they should be |\n|---|---|---|---|---|---|" }
        $1 == 1 || $1 % 10 == 0 && $1 > 0 || $1 == minutes { printf "| %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6 }' "$dir/minutes"
}
reloads=$(curl -sf "http://127.0.0.1:$admin_port/metrics" | awk '/^sluicegate_reloads_total.*"ok"/ { print $2 }')
[ "${reloads%.*}" -ge "$minutes" ] || { echo "only $reloads reloads were applied in $minutes minutes" >&2 && exit 1; }
report | tee "$dir/report"
cat "$dir/wrong" >&2
[ "$write" = no ] || write_between soak "$dir/report"
