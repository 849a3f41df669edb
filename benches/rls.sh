#!/usr/bin/env bash
# What does a decision for Envoy cost, beside Limitador's own server and beside envoyproxy/ratelimit, the reference?
#
# benches/calls.rs sends calls of Envoy's rate limit service to each server in turn: one descriptor with `remote_address`, one limit,
# admitted or over the limit, of one client or of 100,000 in turn, over one connection with 10 calls in flight or over four with 50.
# The figure is the server's own CPU time a call, read from /proc; ratios are formed inside a round. `half` sends the first load at half
# the rate that the slowest of the servers reaches, for the latencies of servers that are not saturated.
#
# Sluicegate and Limitador count in their memory, envoyproxy/ratelimit in a Redis. So Sluicegate runs with a Redis as well, with limits in
# step with it (`shared`) and decided in it (`shared-strict`). Each of these servers has a Redis of its own on the same core, and the figures
# are those of the server alone and of both together.
#
# The peers are packages of no registry that builds use. Name those that you have, one at least:
# LIMITADOR_SERVER: the path of a `limitador-server`, as its README says: out of its container image (quay.io/kuadrant/limitador), or built
# from its source with `cargo build --release`.
# RATELIMIT_SERVER: the path of a `ratelimit`, as its README says: `/bin/ratelimit` of its container image (envoyproxy/ratelimit), or built
# from its source.
#
# The servers run on core 0, the calls come from elsewhere. Loopback only, a temporary directory, and nothing is ended but what was
# started here. benches/README.md says how to read the tables.
set -euo pipefail
cd "$(dirname "$0")/.."
. benches/options.sh

rounds=5 seconds=3 write=no limitador=${LIMITADOR_SERVER:-} ratelimit=${RATELIMIT_SERVER:-}
loads="admitted-1 admitted-100000 over-1 over-100000 many half"
usage() {
    echo "usage: [LIMITADOR_SERVER=/path/limitador-server] [RATELIMIT_SERVER=/path/ratelimit] benches/rls.sh [--rounds N] [--seconds N] [--loads LIST] [--write]"
    echo "  (5 rounds of 3 s; loads are admitted-1, admitted-100000, over-1, over-100000, many, half, all by default; --write updates docs/benchmarks.md)"
}
read_options "rounds seconds loads" "write" "$@"
[ -n "$limitador$ratelimit" ] || { echo "neither LIMITADOR_SERVER nor RATELIMIT_SERVER is set; benches/rls.sh says how to get a peer" >&2 && exit 1; }
for peer in "$limitador" "$ratelimit"; do
    [ -z "$peer" ] || [ -x "$peer" ] || { echo "$peer is no program; benches/rls.sh says how to get a peer" >&2 && exit 1; }
done

needs="taskset cargo ${ratelimit:+redis-server}" example=calls
. benches/processes.sh

# Starts a gateway with this access log. Its limits are counted in its memory, or with its Redis in this way.
start_gateway() { # NAME ACCESS [STORE]
    local name=$1 access=$2 table="" limit="" port=$1_port admin=$1_admin redis=$1_redis
    if [ $# -gt 2 ]; then
        # So the run fails when a call that its limit admits was decided without Redis.
        table="[store]\\nurl = \"redis://127.0.0.1:${!redis}\"\\ntimeout = \"1s\"" limit="store = \"$3\"\\non_store_failure = \"closed\""
    fi
    free_port "$port"
    free_port "$admin"
    mkdir "$dir/$name"
    sed -e "s|{listener}|${!port}|" -e "s|{admin}|${!admin}|" -e "s|{access}|$access|" -e "s|^{store}$|$table|" -e "s|^{limit}$|$limit|" \
        benches/rls/gateway.toml >"$dir/$name/gateway.toml"
    start "$name" $proxy_core "${!port}" "$release/sluicegate" run --config "$dir/$name/gateway.toml"
    printf -v "${name}_pid" %s "$started"
}

# Starts the Redis of a server.
start_redis() { # SERVER
    local port=$1_redis
    free_port "$port"
    start "$1-redis" $proxy_core "${!port}" redis-server --port "${!port}" --bind 127.0.0.1 --save "" --appendonly no --dir "$dir"
    printf -v "$1_redis_pid" %s "$started"
}

# Starts an envoyproxy/ratelimit with its Redis. Its statistics are off: they are sent to a statsd by default, and else written to its log, a
# line for each call.
start_ratelimit() { # NAME VARIABLE=VALUE...
    local name=$1 port=$1_port http=$1_http debug=$1_debug redis=$1_redis
    shift
    start_redis "$name"
    free_port "$port"
    free_port "$http"
    free_port "$debug"
    start "$name" $proxy_core "${!port}" env GRPC_HOST=127.0.0.1 GRPC_PORT="${!port}" HOST=127.0.0.1 PORT="${!http}" \
        DEBUG_HOST=127.0.0.1 DEBUG_PORT="${!debug}" BACKEND_TYPE=redis REDIS_SOCKET_TYPE=tcp REDIS_URL="127.0.0.1:${!redis}" \
        RUNTIME_ROOT="$PWD/benches/rls" RUNTIME_SUBDIRECTORY="" RUNTIME_APPDIRECTORY=ratelimit RUNTIME_WATCH_ROOT=false \
        DISABLE_STATS=true LOG_LEVEL=error "$@" "$ratelimit"
    printf -v "${name}_pid" %s "$started"
}

mkdir "$dir/logs"
start_gateway sluicegate "$dir/logs/sluicegate.log"
start_gateway silent off
in_memory="sluicegate silent" with_redis=""
if [ -n "$limitador" ]; then
    free_port limitador_port
    free_port limitador_http
    start limitador $proxy_core "$limitador_port" "$limitador" --rls-ip 127.0.0.1 --rls-port "$limitador_port" \
        --http-ip 127.0.0.1 --http-port "$limitador_http" benches/rls/limits.yaml memory
    limitador_pid=$started
    in_memory="$in_memory limitador"
fi
if [ -n "$ratelimit" ]; then
    start_redis shared
    start_gateway shared "$dir/logs/shared.log" shared
    start_redis strict
    start_gateway strict "$dir/logs/strict.log" shared-strict
    start_ratelimit ratelimit
    # What its README recommends for speed: keys over their limit are remembered, and writes to Redis wait for others.
    start_ratelimit tuned LOCAL_CACHE_SIZE_IN_BYTES=67108864 REDIS_PIPELINE_WINDOW=150us
    with_redis="shared strict ratelimit tuned"
fi
peers="$in_memory $with_redis"

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

# The CPU time of each of these processes, in clock ticks.
ticks_of() { # PID...
    local pid
    for pid; do ticks "$pid"; done
}

# One run: appends "round load peer cpu_us calls/s p50_us p99_us rss_mb" to the results, and the same of PEER+redis for both together.
measure() { # ROUND LOAD PEER
    local round=$1 load=$2 peer=$3 port=${3}_port pid=${3}_pid redis=${3}_redis_pid processes before after rss
    processes=("${!pid}")
    [ -z "${!redis:-}" ] || processes+=("${!redis}")
    send "$load" "${!port}" --seconds 1 >/dev/null
    before=$(ticks_of "${processes[@]}")
    send "$load" "${!port}" --seconds "$seconds" >"$dir/calls"
    after=$(ticks_of "${processes[@]}")
    find "$dir" \( -name '*.log' -o -name '*.out' \) -exec truncate -s 0 {} +
    rss=$(for pid in "${processes[@]}"; do awk '/^VmRSS/ { print $2 / 1024 }' "/proc/$pid/status"; done)
    awk -v round="$round" -v load="$load" -v peer="$peer" -v before="$before" -v after="$after" -v hertz="$hertz" -v rss="$rss" '
        {
            wrong = load ~ /^over/ ? $4 : $6
            if ($2 == 0 || wrong > 0) {
                printf "%s, %s: %d of %d answers are not as they should be\n", peer, load, wrong, $2 > "/dev/stderr"
                exit 1
            }
            split(before, from); split(rss, resident); number = split(after, to)
            for (n = 1; n <= number; n++) {
                ticks += to[n] - from[n]; memory += resident[n]
                printf "%d %s %s %.2f %.0f %d %d %.0f\n", round, load, n == 1 ? peer : peer "+redis", ticks / hertz * 1e6 / $2, $2 / $8, \
                    $10, $12, memory
            }
        }' "$dir/calls" | tee -a "$dir/results" >&2
}

# The one call of each client that its limit admits.
for peer in $peers; do
    port=${peer}_port
    send over-100000 "${!port}" --calls 100000 >/dev/null
done
case " $loads " in *" half "*)
    for peer in $peers; do
        port=${peer}_port
        send admitted-1 "${!port}" --seconds 2
    done >"$dir/calls"
    half_rate=$(awk '{ rate = $2 / $8; if (NR == 1 || rate < least) least = rate } END { printf "%d", least / 2 }' "$dir/calls")
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

# What ran beside the gateway.
versions() {
    local revision
    [ -z "$limitador" ] || "$limitador" --version | head -n 1
    [ -n "$ratelimit" ] || return 0
    # Go writes it into what it builds inside a checkout.
    revision=$(grep -a -o -m 1 'vcs.revision=[0-9a-f]\{8\}' "$ratelimit" | cut -d = -f 2 || true)
    echo "envoyproxy/ratelimit ${revision:-of an unknown revision}"
    echo "Redis $(redis-server --version | sed 's/.* v=\([^ ]*\).*/\1/')"
}

# A row a load for the servers that count in memory; then a row a load and a gateway beside the servers with a Redis.
report() {
    measured_with "$(versions | paste -s -d , | sed 's/,/, /g')"
    awk -v in_memory="$in_memory" -v with_redis="$with_redis" -v chosen="$loads" -v half="${half_rate:-0}" "$compared"'
        { keep() }
        function used(peer) { return sprintf(" %.1f |", middle(load, peer, "cpu")) }
        function late(peer) { return sprintf(" %d |", middle(load, peer, "p99")) }
        # The CPU time of a gateway to that of a peer alone, and of both with the Redis that each has.
        function beside(gateway, peer,    whole) {
            whole = (load, gateway "+redis") in seen ? gateway "+redis" : gateway
            return " " ratio(load, gateway, peer, "cpu") " | " ratio(load, whole, peer "+redis", "cpu") " |"
        }
        function has(list, peer) { return (" " list " ") ~ (" " peer " ") }
        END {
            title["sluicegate"] = "memory"; title["shared"] = "`shared`"; title["strict"] = "`shared-strict`"
            name["admitted-1"] = "admitted, one client"; name["admitted-100000"] = "admitted, 100,000"
            name["over-1"] = "over the limit, one client"; name["over-100000"] = "over the limit, 100,000"
            name["many"] = "admitted, 100,000, 4 × 50 calls in flight"
            name["half"] = "admitted, one client, " half " calls/s"
            number_of_loads = split(chosen, loads, " ")
            limitador = has(in_memory, "limitador")
            print "\n| load | CPU µs a call | calls/s | p99 µs | to no access log |" (limitador ? " to Limitador | p99 to Limitador’s |" : "")
            print "|---|---|---|---|---|" (limitador ? "---|---|" : "")
            for (l = 1; l <= number_of_loads; l++) {
                load = loads[l]
                print "| " name[load] " |" used("sluicegate") sprintf(" %d |", middle(load, "sluicegate", "rate")) late("sluicegate") \
                    " " ratio(load, "sluicegate", "silent", "cpu") " |" \
                    (limitador ? " " ratio(load, "sluicegate", "limitador", "cpu") " | " ratio(load, "sluicegate", "limitador", "p99") " |" : "")
            }
            if (with_redis == "") exit
            print "\n| load | counters | CPU µs a call | with its Redis | p99 µs | to the reference | both with Redis | to tuned | both with Redis |"
            print "|---|---|---|---|---|---|---|---|---|"
            number = split("sluicegate shared strict", names, " ")
            for (l = 1; l <= number_of_loads; l++) {
                load = loads[l]
                for (n = 1; n <= number; n++) {
                    peer = names[n]
                    print (n == 1 ? "| " name[load] : "|") " | " title[peer] " |" used(peer) ((load, peer "+redis") in seen ? used(peer "+redis") : " – |") \
                        late(peer) beside(peer, "ratelimit") beside(peer, "tuned")
                }
            }
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between rls "$dir/report"
