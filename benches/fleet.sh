#!/usr/bin/env bash
# What does it cost to count as one, and how well do three gateways do it?
#
# Three gateways stand before one nginx and share one Redis. Three loads are spread evenly over them: steady (300 clients, each at
# half its limit), bursty (30 clients, each asking three times its limit, all at the beginning of each second) and attack (one client,
# as fast as it is answered). Each runs with counters of each gateway's own, shared, and shared-strict, and through one gateway alone,
# whose admissions are what the three should come to. What was admitted is what the origin counted.
#
# Loopback only, a temporary directory, and nothing is ended but what was started here. benches/README.md says how to read the table.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=12 write=no
usage() {
    echo "usage: benches/fleet.sh [--seconds N] [--write]   (12 runs of 12 s and a window's begin, four minutes; --write updates docs/benchmarks.md)"
}
while [ $# -gt 0 ]; do
    case "$1" in
    --seconds) seconds=$2 && shift 2 ;;
    --write) write=yes && shift ;;
    *) usage >&2 && exit 64 ;;
    esac
done

needs="nginx redis-server redis-cli curl cargo" example=paced
. benches/processes.sh

. benches/fleet/gateways.sh

free_port redis
start redis any "$redis" redis-server --port "$redis" --bind 127.0.0.1 --save "" --appendonly no --dir "$dir"

# CPU time of the gateways, in clock ticks.
spent() {
    local pid
    for pid in $gateways; do ticks "$pid"; done | awk '{ sum += $1 } END { print sum }'
}

# Scripts that the store was asked to run.
asked() {
    redis-cli -p "$redis" info commandstats | tr ',=' '  ' |
        awk '/^cmdstat_(evalsha|eval|fcall)/ { sum += $2 } END { print sum + 0 }'
}

# One run: appends "mode traffic requests refused rps p50 p99 cpu_us asked admitted peak" to the results.
measure() { # GATEWAYS MODE TRAFFIC OPTIONS...
    local number=$1 mode=$2 traffic=$3 before after origin_before origin_after asked_before asked_after
    shift 3
    start_gateways "$number" "$mode" "url = \"redis://127.0.0.1:$redis\""
    before=$(spent) origin_before=$(counted) asked_before=$(asked)
    "$release/examples/paced" --to "$addresses" --path /limited --seconds "$seconds" "$@" >"$dir/paced"
    after=$(spent) origin_after=$(counted) asked_after=$(asked)
    stop_gateways
    redis-cli -p "$redis" flushall >/dev/null
    local name=$mode
    [ "$number" -gt 1 ] || name=one
    # The looks at the origin's counter are counted too, one of them in between.
    awk -v mode="$name" -v traffic="$traffic" -v cpu=$((after - before)) -v hertz="$hertz" -v seconds="$seconds" \
        -v asked=$((asked_after - asked_before)) -v admitted=$((origin_after - origin_before - 1)) '{
            for (i = 1; i < NF; i += 2) got[$i] = $(i + 1)
            if (got["other"] > 0 || admitted != got["admitted"]) {
                printf "%s, %s: %d answers are neither admitted nor refused; the origin counted %d, clients %d\n", mode, traffic, \
                    got["other"], admitted, got["admitted"] > "/dev/stderr"
                exit 1
            }
            printf "%s %s %d %d %.0f %d %d %.1f %d %d %d\n", mode, traffic, got["sent"], got["refused"], got["sent"] / seconds, \
                got["p50_us"], got["p99_us"], cpu / hertz * 1e6 / got["sent"], asked, admitted, got["peak"]
        }' "$dir/paced" | tee -a "$dir/results" >&2
}

echo "mode traffic requests refused requests/s p50_us p99_us cpu_us asked admitted peak" >&2
for traffic in steady bursty attack; do
    case $traffic in
    steady) options="--clients 300 --rate 1500" ;;
    bursty) options="--clients 30 --rate 900 --burst 100" ;;
    attack) options="--clients 1" ;;
    esac
    # shellcheck disable=SC2086 # several words
    for mode in one local shared shared-strict; do
        case $mode in
        one) measure 1 local "$traffic" $options ;;
        *) measure 3 "$mode" "$traffic" $options ;;
        esac
    done
done

report() {
    echo "Measured $(date -u +%Y-%m-%d) at commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores," \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r)," \
        "Redis $(redis-server --version | sed 's/.* v=\([^ ]*\).*/\1/'), runs of $seconds s, limit 100 per 10s."
    awk '
        {
            order[NR] = $1 " " $2
            value[$1, $2, "rps"] = $5; value[$1, $2, "p50"] = $6; value[$1, $2, "p99"] = $7; value[$1, $2, "cpu"] = $8
            value[$1, $2, "asked"] = $9 / $3; value[$1, $2, "admitted"] = $10; value[$1, $2, "peak"] = $11
        }
        END {
            title["one"] = "one gateway"; title["local"] = "`local`"; title["shared"] = "`shared`"
            title["shared-strict"] = "`shared-strict`"
            print "\n| traffic | counters | requests/s | p50 µs | p99 µs | CPU µs a request | of `local` | store calls a request |" \
                " admitted | of one gateway | most of one client in 10 s |"
            print "|---|---|---|---|---|---|---|---|---|---|---|"
            for (line = 1; line <= NR; line++) {
                split(order[line], run, " "); mode = run[1]; traffic = run[2]
                printf "| %s | %s | %d | %d | %d | %.1f | %.2f | %.4f | %d | %.3f | %d |\n", traffic, title[mode], \
                    value[mode, traffic, "rps"], value[mode, traffic, "p50"], value[mode, traffic, "p99"], \
                    value[mode, traffic, "cpu"], value[mode, traffic, "cpu"] / value["local", traffic, "cpu"], \
                    value[mode, traffic, "asked"], value[mode, traffic, "admitted"], \
                    value[mode, traffic, "admitted"] / value["one", traffic, "admitted"], value[mode, traffic, "peak"]
            }
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between fleet "$dir/report"
