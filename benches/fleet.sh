#!/usr/bin/env bash
# What does it cost to count as one, and how well do three gateways do it?
#
# Three gateways stand before one nginx and share one Redis. Three loads are spread evenly over them: steady (300 clients, each at
# half its limit), bursty (30 clients, each asking three times its limit, all at the beginning of each second) and attack (one client,
# as fast as it is answered). Each runs with counters of each gateway's own, shared, and shared-strict, and through one gateway alone,
# whose admissions are what the three should come to. What was admitted is what the origin counted.
#
# --long asks another question: does the error of `shared` stay what it was in the first window? One client asks 1,000 times a second for two
# minutes, and the access logs say how much of that was admitted in each window of 10 s after the first.
#
# Loopback only, a temporary directory, and nothing is ended but what was started here. benches/README.md says how to read the table.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=12 write=no long=no
usage() {
    echo "usage: benches/fleet.sh [--seconds N] [--write] [--long]   (12 runs of 12 s and a window's begin, four minutes; --long: 6 runs of 120 s," \
        "13 minutes; --write updates docs/benchmarks.md)"
}
while [ $# -gt 0 ]; do
    case "$1" in
    --seconds) seconds=$2 && shift 2 ;;
    --write) write=yes && shift ;;
    --long) long=yes seconds=120 && shift ;;
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

# One long run: appends "algorithm counters windows admitted least most" to the results, windows being those after the first.
measure_long() { # GATEWAYS MODE ALGORITHM
    local number=$1 mode=$2 name=$2
    [ "$number" -gt 1 ] || name=one
    limit_lines="algorithm = \"$3\"" start_gateways "$number" "$mode" "url = \"redis://127.0.0.1:$redis\""
    "$release/examples/paced" --to "$addresses" --path /limited --seconds "$seconds" --clients 1 --rate 1000 >"$dir/paced"
    # The access logs are written within a second.
    sleep 1
    # Runs begin where a window does, so tens of seconds tell windows apart.
    cat "$dir"/logs/gateway*.log | awk -v name="$name" -v algorithm="$3" -v windows=$((seconds / 10)) '
        /"status":200,/ && match($0, /"time":"[^"]+"/) { admitted[substr($0, RSTART + 8, 18)]++ }
        END {
            for (window in admitted) order[++count] = window
            for (i = 2; i <= count; i++)
                for (j = i; j > 1 && order[j - 1] > order[j]; j--) { swap = order[j]; order[j] = order[j - 1]; order[j - 1] = swap }
            for (i = 2; i <= windows && i <= count; i++) {
                got = admitted[order[i]]; sum += got; used++
                if (least == "" || got < least) least = got
                if (got > most) most = got
            }
            printf "%s %s %d %d %d %d %d\n", algorithm, name, used, admitted[order[1]], sum, least, most
        }' | tee -a "$dir/results" >&2
    stop_gateways
    redis-cli -p "$redis" flushall >/dev/null
}

report_long() {
    echo "Measured $(date -u +%Y-%m-%d) at commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores," \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r)," \
        "Redis $(redis-server --version | sed 's/.* v=\([^ ]*\).*/\1/'), runs of $seconds s, one client at 1,000/s, limit 100 per 10s, sync 250ms."
    awk '
        BEGIN {
            title["one"] = "one gateway"; title["shared"] = "`shared`"; title["shared-strict"] = "`shared-strict`"
            print "\n| algorithm | counters | first window | a window after it | least | most | of one gateway |"
            print "|---|---|---|---|---|---|---|"
        }
        $2 == "one" { one[$1] = $5 / $3 }
        { printf "| `%s` | %s | %d | %.1f | %d | %d | %.3f |\n", $1, title[$2], $4, $5 / $3, $6, $7, $5 / $3 / one[$1] }' "$dir/results"
}

if [ "$long" = yes ]; then
    for algorithm in sliding-window gcra; do
        measure_long 1 local "$algorithm"
        for mode in shared shared-strict; do measure_long 3 "$mode" "$algorithm"; done
    done
    report_long | tee "$dir/report"
    [ "$write" = no ] || write_between fleet-long "$dir/report"
    exit
fi

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
