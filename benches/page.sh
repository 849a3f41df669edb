#!/usr/bin/env bash
# What does the page at /ui/ cost requests while it is open, when does a browser paint it, and does an hour of its stream grow anything?
#
# One gateway with 500 routes to an origin and 500 routes that reject, each with a limit of its own. wrk goes round the routes, so that
# all of these limits change between two events, with no stream open and with three, which curl reads as they come. As in edge.sh the
# figure is CPU time of the gateway's process, that of the streams included, and ratios are formed inside a round.
#
# Then the page is loaded in Chromium, five times, with a profile of its own each time: the first contentful paint. At last three
# tabs of one Chromium stay open for so many minutes of steady rejections: memory of the gateway and of the browser's processes that show
# pages. Where there is no Chromium the first is left out, and curl reads the streams.
#
# The gateway runs on core 0, all else elsewhere. Loopback only, a temporary directory, and nothing is ended but what was started here.
# benches/README.md says how to read the tables.
set -euo pipefail
cd "$(dirname "$0")/.."
. benches/options.sh

rounds=5 seconds=3 connections=32 minutes=5 rate=500 write=no
limits=500 streams=3 paints=5
usage() {
    echo "usage: benches/page.sh [--rounds N] [--seconds N] [--minutes N] [--rate N] [--write]"
    echo "       (5 rounds of 3 s, then 5 minutes at 500 rejections/s; --write updates docs/benchmarks.md)"
}
read_options "rounds seconds minutes rate" "write" "$@"

needs="nginx wrk openssl taskset curl cargo" example=paced
. benches/processes.sh

# shellcheck disable=SC2154 # set by free_port
free_port paint_port
edge_files origin.conf
for name in gateway.toml paint.conf; do
    sed -e "s|{dir}|$dir|g" -e "s|{sluicegate}|$sluicegate_port|g" -e "s|{admin}|$admin_port|g" -e "s|{origin}|$origin_port|g" \
        -e "s|{paint}|$paint_port|g" "benches/page/$name" >"$dir/$name"
done
for at in $(seq 0 $((limits - 1))); do
    printf '[limit.open%d]\nkey = "client.ip"\nrates = ["1000000 per 1s"]\ncapacity = 1024\n' "$at"
    printf '[limit.closed%d]\nkey = "client.ip"\nrates = ["1 per 1h"]\ncapacity = 1024\n' "$at"
    printf '[[route]]\npath = "/open%d"\nlimits = ["open%d"]\norigin = "app"\n' "$at" "$at"
    printf '[[route]]\npath = "/closed%d"\nlimits = ["closed%d"]\norigin = "app"\n' "$at" "$at"
done >>"$dir/gateway.toml"

start origin $origin_core "$origin_port" nginx -p "$dir" -e "$dir/origin-error.log" -c "$dir/origin.conf"
start sluicegate $proxy_core "$sluicegate_port" "$release/sluicegate" run --config "$dir/gateway.toml"
pid=$started

readers=""
# Opens the streams, and waits until each has its first event.
open_streams() {
    local reader try
    readers=""
    for reader in $(seq "$streams"); do
        : >"$dir/stream$reader"
        taskset -c $origin_core curl -sN "http://127.0.0.1:$admin_port/events" >>"$dir/stream$reader" &
        readers="$readers $!"
    done
    pids="$pids $readers"
    for reader in $(seq "$streams"); do
        for try in $(seq 100); do
            grep -q '^event: counters' "$dir/stream$reader" && continue 2
            sleep 0.1
        done
        echo "stream $reader has no event (try $try)" >&2 && exit 1
    done
}

# Closes the streams; each must have had events to its end.
close_streams() {
    local reader
    # shellcheck disable=SC2086 # one word a process
    kill $readers
    for reader in $readers; do
        wait "$reader" 2>/dev/null || true
        pids=${pids/ $reader/}
    done
    for reader in $(seq "$streams"); do
        [ "$(grep -c '^event: counters' "$dir/stream$reader")" -ge "$seconds" ] ||
            { echo "stream $reader had no events for $seconds s" >&2 && exit 1; }
    done
}

load() { # KIND SECONDS
    LIMITS=$limits taskset -c $wrk_core wrk -t1 -c"$connections" -d"$2s" --latency -s "benches/page/$1.lua" \
        "http://127.0.0.1:$sluicegate_port"
}

# One run: appends "round kind streams cpu_us rps p50_us p99_us" to the results.
measure() { # ROUND KIND STREAMS
    local round=$1 kind=$2 open=$3 before after
    [ "$open" -eq 0 ] || open_streams
    load "$kind" 1 >/dev/null
    before=$(ticks "$pid")
    load "$kind" "$seconds" >"$dir/wrk"
    after=$(ticks "$pid")
    [ "$open" -eq 0 ] || close_streams
    truncate -s 0 "$dir/logs/sluicegate-access.log"
    awk -v round="$round" -v kind="$kind" -v open="$open" -v ticks=$((after - before)) -v hertz="$hertz" "$microseconds"'
        / requests in / { requests = $1 }
        /^Requests\/sec/ { rps = $2 }
        /Non-2xx or 3xx/ { refused = $NF }
        /Socket errors/ { errors = $0 }
        $1 == "50%" { p50 = us($2) }
        $1 == "99%" { p99 = us($2) }
        END {
            other = kind == "open" ? refused : requests - refused
            if (requests == 0 || other > requests / 1000 || errors != "") {
                printf "%s: %d of %d answers are not as they should be. %s\n", kind, other, requests, errors > "/dev/stderr"
                exit 1
            }
            printf "%d %s %d %.2f %.0f %.0f %.0f\n", round, kind, open, ticks / hertz * 1e6 / requests, rps, p50, p99
        }' "$dir/wrk" | tee -a "$dir/results" >&2
}

# The first request of each route that rejects is admitted.
load closed 2 >/dev/null
echo "round kind streams cpu_us requests/s p50_us p99_us" >&2
for round in $(seq "$rounds"); do
    for kind in open closed; do
        order="0 $streams"
        # Every other round runs backwards, so that nobody always follows the same neighbour.
        [ $((round % 2)) -eq 1 ] || order="$streams 0"
        for open in $order; do measure "$round" "$kind" "$open"; done
    done
done

browser=""
for name in chromium chromium-browser google-chrome google-chrome-stable; do
    browser=$(command -v "$name") && break
done

# Becomes a browser, so it belongs into a pipeline or the background.
chromium() { # PROFILE ARGUMENT...
    local profile=$1
    shift
    exec taskset -c $origin_core "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run \
        --no-proxy-server --disable-background-networking --disable-component-update --disable-sync --disable-extensions \
        --user-data-dir="$dir/$profile" "$@" 2>>"$dir/chromium.err"
}

if [ -n "$browser" ]; then
    cp benches/page/paint.js "$dir/paint.js"
    printf '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"><!-- %s --></svg>' "$(printf '%08d' 0)" >"$dir/wait.svg"
    start paint $origin_core "$paint_port" nginx -p "$dir" -e "$dir/paint-error.log" -c "$dir/paint.conf"
    for at in $(seq "$paints"); do
        chromium "paint$at" --dump-dom "http://127.0.0.1:$paint_port/ui/" | sed -n 's/.*data-paint="\([0-9]*\)".*/\1/p' >>"$dir/paints"
        rm -rf "$dir/paint$at"
    done
    [ "$(wc -l <"$dir/paints")" -eq "$paints" ] || { echo "the page was not painted:" >&2 && cat "$dir/chromium.err" >&2 && exit 1; }
fi

mebibytes() { # PID...
    local process
    for process; do awk '/^Pss:/ { print $2 }' "/proc/$process/smaps_rollup" 2>/dev/null || true; done |
        awk '{ kib += $1 } END { printf "%.1f", kib / 1024 }'
}

# The processes below the browser that show pages.
tabs() {
    [ -z "$browser" ] || ps -e -o pid=,ppid=,args= | awk -v root="$started" '
        { parent[$1] = $2; renders[$1] = /--type=renderer/ }
        END {
            for (process in parent) {
                above = process
                while (above in parent && above != root) above = parent[above]
                if (above == root && renders[process]) print process
            }
        }'
}

# Opens the pages in a browser, or only their streams.
open_pages() {
    local url="http://127.0.0.1:$admin_port/ui/" view try
    if [ -z "$browser" ]; then open_streams && return; fi
    chromium tabs --remote-debugging-port=0 about:blank >/dev/null &
    started=$!
    pids="$pids $started"
    for try in $(seq 300); do
        [ ! -s "$dir/tabs/DevToolsActivePort" ] || break
        sleep 0.1
    done
    [ "$try" -lt 300 ] || { cat "$dir/chromium.err" >&2 && exit 1; }
    for view in "" limits rejections; do
        curl -sf -X PUT "http://127.0.0.1:$(head -n 1 "$dir/tabs/DevToolsActivePort")/json/new?$url%23/$view" >/dev/null
    done
}

echo "minute gateway_mib tabs_mib" >&2
open_pages
for minute in $(seq 0 "$minutes"); do
    # The first minute warms up.
    taskset -c $wrk_core "$release/examples/paced" --to "127.0.0.1:$sluicegate_port" --path /closed0 --rate "$rate" \
        --connections 4 --seconds 60 >/dev/null
    truncate -s 0 "$dir/logs/sluicegate-access.log"
    # shellcheck disable=SC2046 # one word a process
    echo "$minute $(mebibytes "$pid") $(mebibytes $(tabs))" | tee -a "$dir/memory" >&2
done

report() {
    measured
    awk "$median"'
        function middle(kind, open, column,    list, count, round) {
            count = 0
            for (round = 1; round <= rounds; round++) list[++count] = value[round, kind, open, column]
            return median(list, count)
        }
        # The median over the rounds of the ratio to no stream, each formed inside its round; with the smallest and largest.
        function ratio(kind, open,    list, count, round, half) {
            count = 0
            for (round = 1; round <= rounds; round++) list[++count] = value[round, kind, open, "cpu"] / value[round, kind, 0, "cpu"]
            half = median(list, count)
            return open == 0 ? "1" : sprintf("%.2f (%.2f–%.2f)", half, list[1], list[count])
        }
        {
            rounds = $1
            value[$1, $2, $3, "cpu"] = $4; value[$1, $2, $3, "rps"] = $5
            value[$1, $2, $3, "p50"] = $6; value[$1, $2, $3, "p99"] = $7
            opened[$3 > 0 ? 2 : 1] = $3
        }
        END {
            name["open"] = "forwarded"; name["closed"] = "rejected"
            split("open closed", kinds, " ")
            print "\n| request | streams | CPU µs a request | requests/s | p50 µs | p99 µs | CPU to no stream (min–max) |"
            print "|---|---|---|---|---|---|---|"
            for (at = 1; at <= 2; at++) for (many = 1; many <= 2; many++) {
                kind = kinds[at]; open = opened[many]
                printf "| %s | %d | %.1f | %d | %d | %d | %s |\n", name[kind], open, middle(kind, open, "cpu"), middle(kind, open, "rps"), \
                    middle(kind, open, "p50"), middle(kind, open, "p99"), ratio(kind, open)
            }
        }' "$dir/results"
    [ -z "$browser" ] ||
        awk "$median"'
            { list[NR] = $1 }
            END {
                middle = median(list, NR)
                printf "\nFirst contentful paint in %d new browsers: median %d ms (%d–%d).\n", NR, middle, list[1], list[NR]
            }' "$dir/paints"
    awk -v rate="$rate" -v browser="$browser" '
        NR == 1 { gateway = $2; tabs = $3 }
        END {
            printf "\nMemory (PSS) at %d rejections/s, after the first minute and after %d more: gateway %.1f and %.1f MiB", \
                rate, $1, gateway, $2
            if (browser != "") printf ", three tabs of Chromium %.1f and %.1f MiB", tabs, $3
            print "."
        }' "$dir/memory"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between page "$dir/report"
