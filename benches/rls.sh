#!/usr/bin/env bash
# What does a decision for Envoy cost, beside Limitador's own server?
#
# benches/calls.rs sends calls of Envoy's rate limit service to each server in turn: one descriptor with `remote_address`, one limit, in
# memory, admitted or over the limit, of one client or of 100,000 in turn, over one connection with 10 calls in flight or over four with 50.
# The figure is the server's own CPU time a call, read from /proc; ratios are formed inside a round. `half` sends the first load at half
# the rate that Limitador reaches, for the latencies of a server that is not saturated.
#
# Limitador is no package of any registry that builds use. Set LIMITADOR_SERVER to the path of a `limitador-server`, as its README says:
# out of its container image (quay.io/kuadrant/limitador), or built from its source with `cargo build --release`.
#
# The server runs on core 0, the calls come from elsewhere. Loopback only, a temporary directory, and nothing is ended but what was
# started here. benches/README.md says how to read the tables.
set -euo pipefail
cd "$(dirname "$0")/.."
. benches/options.sh

rounds=5 seconds=3 write=no limitador=${LIMITADOR_SERVER:-}
loads="admitted-1 admitted-100000 over-1 over-100000 many half"
usage() {
    echo "usage: LIMITADOR_SERVER=/path/limitador-server benches/rls.sh [--rounds N] [--seconds N] [--loads LIST] [--write]"
    echo "  (5 rounds of 3 s; loads are admitted-1, admitted-100000, over-1, over-100000, many, half, all by default; --write updates docs/benchmarks.md)"
}
read_options "rounds seconds loads" "write" "$@"
[ -x "$limitador" ] || { echo "LIMITADOR_SERVER names no program; benches/rls.sh says how to get one" >&2 && exit 1; }

needs="taskset cargo" example=calls
. benches/processes.sh

# Starts a gateway with this access log.
start_gateway() { # NAME ACCESS
    free_port "$1_port"
    free_port "$1_admin"
    local port=$1_port admin=$1_admin
    mkdir "$dir/$1"
    sed -e "s|{listener}|${!port}|" -e "s|{admin}|${!admin}|" -e "s|{access}|$2|" benches/rls/gateway.toml >"$dir/$1/gateway.toml"
    start "$1" $proxy_core "${!port}" "$release/sluicegate" run --config "$dir/$1/gateway.toml"
    printf -v "$1_pid" %s "$started"
}

mkdir "$dir/logs"
start_gateway sluicegate "$dir/logs/access.log"
start_gateway silent off
free_port limitador_port
free_port limitador_http
start limitador $proxy_core "$limitador_port" "$limitador" --rls-ip 127.0.0.1 --rls-port "$limitador_port" \
    --http-ip 127.0.0.1 --http-port "$limitador_http" benches/rls/limits.yaml memory
limitador_pid=$started
peers="sluicegate silent limitador"

# Sends a load.
send() { # LOAD PORT OPTION...
    local load=$1 port=$2 domain=admitted clients=1 connections=1 streams=10 rate=""
    shift 2
    case "$load" in
    over-*) domain=over ;;&
    *-100000) clients=100000 ;;
    many) clients=100000 connections=4 streams=50 ;;
    half) rate="--rate $half_rate" ;;
    esac
    # shellcheck disable=SC2086 # two words or none
    taskset -c $wrk_core "$release/examples/calls" --to "127.0.0.1:$port" --domain "$domain" --clients "$clients" \
        --connections "$connections" --streams "$streams" $rate "$@"
}

# One run: appends "round load peer cpu_us calls/s p50_us p99_us rss_mb" to the results.
measure() { # ROUND LOAD PEER
    local round=$1 load=$2 peer=$3 port pid before after rss
    port=${peer}_port pid=${peer}_pid
    send "$load" "${!port}" --seconds 1 >/dev/null
    before=$(ticks "${!pid}")
    send "$load" "${!port}" --seconds "$seconds" >"$dir/calls"
    after=$(ticks "${!pid}")
    find "$dir" \( -name '*access.log' -o -name '*.out' \) -exec truncate -s 0 {} +
    rss=$(awk '/^VmRSS/ { printf "%.0f", $2 / 1024 }' "/proc/${!pid}/status")
    awk -v round="$round" -v load="$load" -v peer="$peer" -v ticks=$((after - before)) -v hertz="$hertz" -v rss="$rss" '
        {
            wrong = load ~ /^over/ ? $4 : $6
            if ($2 == 0 || wrong > 0) {
                printf "%s, %s: %d of %d answers are not as they should be\n", peer, load, wrong, $2 > "/dev/stderr"
                exit 1
            }
            printf "%d %s %s %.2f %.0f %d %d %s\n", round, load, peer, ticks / hertz * 1e6 / $2, $2 / $8, $10, $12, rss
        }' "$dir/calls" | tee -a "$dir/results" >&2
}

# The one call of each client that its limit admits.
for peer in $peers; do
    port=${peer}_port
    send over-100000 "${!port}" --calls 100000 >/dev/null
done
case " $loads " in *" half "*)
    send admitted-1 "$limitador_port" --seconds 2 >"$dir/calls"
    half_rate=$(awk '{ printf "%d", $2 / $8 / 2 }' "$dir/calls")
    ;;
esac

echo "round load peer cpu_us calls/s p50_us p99_us rss_mb" >&2
for round in $(seq "$rounds"); do
    # shellcheck disable=SC2086 # one word a peer
    order=$(in_turn "$round" $peers)
    for load in $loads; do
        for peer in $order; do measure "$round" "$load" "$peer"; done
    done
done

report() {
    measured_with "$("$limitador" --version | head -n 1)"
    awk -v peers="$peers" -v chosen="$loads" -v half="${half_rate:-0}" "$compared"'
        { keep() }
        END {
            title["sluicegate"] = "Sluicegate"; title["silent"] = "Sluicegate, no access log"; title["limitador"] = "Limitador"
            name["admitted-1"] = "Admitted, one client"; name["admitted-100000"] = "Admitted, 100,000 clients in turn"
            name["over-1"] = "Over the limit, one client"; name["over-100000"] = "Over the limit, 100,000 clients in turn"
            name["many"] = "Admitted, 100,000 clients, 4 connections with 50 calls in flight each"
            name["half"] = "Admitted, one client, at " half " calls a second, half of what Limitador reaches"
            number_of_loads = split(chosen, loads, " "); number = split(peers, names, " ")
            for (l = 1; l <= number_of_loads; l++) {
                load = loads[l]
                printf "\n**%s**\n\n", name[load]
                print "| server | CPU µs a call | calls/s | p50 µs | p99 µs | RSS MB | Sluicegate’s CPU to this (min–max) | Sluicegate’s p99 to this (min–max) |"
                print "|---|---|---|---|---|---|---|---|"
                for (n = 1; n <= number; n++) {
                    peer = names[n]
                    printf "| %s | %.1f | %d | %d | %d | %d | %s | %s |\n", title[peer], middle(load, peer, "cpu"), \
                        middle(load, peer, "rate"), middle(load, peer, "p50"), middle(load, peer, "p99"), \
                        middle(load, peer, "rss"), ratio(load, "sluicegate", peer, "cpu"), \
                        ratio(load, "sluicegate", peer, "p99")
                }
            }
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between rls "$dir/report"
