#!/usr/bin/env bash
# What does one request cost the proxy, beside nginx and beside a bare Pingora?
#
# wrk sends loads through each proxy in turn: all admitted (1 KB from a local nginx, under a limit that is never reached), all refused
# (429), the same with a connection for each request, in clear text and with a handshake of TLS, uploads of 10 KB, answers of 100 KB, the
# first load over TLS; h2load sends the first two over HTTP/2 in clear text, and paced sends the first at half the rate that nginx
# reaches, for the latencies of a proxy that is not saturated. The figure is the proxy's own CPU time a request, read from /proc, because
# it is what a busy machine runs out of, and because it hardly depends on how fast the load generator is. The part that the kernel takes is
# shown too: what a proxy sends and receives for a request costs every proxy the same there.
# Ratios are formed inside a round and only then compared: on a shared machine two rounds differ more than two proxies do.
#
# The proxy runs on core 0, origin and wrk elsewhere. Loopback only, a temporary directory, and nothing is ended but what was
# started here. benches/README.md says how to read the tables.
set -euo pipefail
cd "$(dirname "$0")/.."
. benches/options.sh

rounds=5 seconds=8 connections=32 threads=1 write=no guided=no table=edge loads="admitted refused connect connect-tls upload large http2 http2-refused tls half"
usage() {
    echo "usage: benches/edge.sh [--rounds N] [--seconds N] [--loads LIST] [--threads N] [--guided] [--write]"
    echo "  (5 rounds of 8 s; loads are admitted, refused, connect, connect-tls, upload, large, http2, http2-refused, tls, half, all by default; --threads are those of the gateway, 1 by default, all on one core; --guided measures what ships, built by packaging/guided.sh; --write updates docs/benchmarks.md)"
}
read_options "rounds seconds loads threads" "guided write" "$@"
[ "$guided" = no ] || table=edge-guided

needs="nginx wrk h2load openssl taskset cargo"
. benches/processes.sh
case " $loads " in *" half "*) cargo build --release --locked --example paced >&2 ;; esac
paced=${CARGO_TARGET_DIR:-target}/release/examples/paced

mkdir "$dir/www"
head -c 100000 /dev/zero | tr '\0' 0 >"$dir/www/large"
edge_files origin.conf nginx.conf sluicegate.toml haproxy.cfg
sed -i "s/^threads = .*/threads = $threads/" "$dir/sluicegate.toml"
start origin $origin_core "$origin_port" nginx -p "$dir" -e "$dir/origin-error.log" -c "$dir/origin.conf"
start sluicegate $proxy_core "$sluicegate_port" "$release/sluicegate" run --config "$dir/sluicegate.toml"
sluicegate_pid=$started
start bare $proxy_core "$bare_port" "$release/bare" "127.0.0.1:$bare_port" "127.0.0.1:$origin_port"
bare_pid=$started
start nginx $proxy_core "$nginx_port" nginx -p "$dir" -e "$dir/nginx-error.log" -c "$dir/nginx.conf"
nginx_pid=$started buffered_pid=$started http2_pid=$started
peers="sluicegate bare nginx buffered http2"
if command -v haproxy >/dev/null; then
    start haproxy $proxy_core "$haproxy_port" haproxy -db -f "$dir/haproxy.cfg"
    haproxy_pid=$started
    peers="$peers haproxy"
fi

# Sends a load for so many seconds.
send() { # LOAD SECONDS URL
    local load=$1 seconds=$2 url=$3 more=()
    case "$load" in
    http2*)
        taskset -c $wrk_core h2load --duration="$seconds" --clients="$connections" --max-concurrent-streams=8 "$url"
        return
        ;;
    half)
        local to=${url#http://}
        taskset -c $wrk_core "$paced" --to "${to%%/*}" --path "/${to#*/}" --seconds "$seconds" --connections "$connections" --rate "$half_rate"
        return
        ;;
    esac
    case "$load" in
    upload) more=(-s benches/edge/upload.lua) ;;
    connect*) more=(-H "Connection: close") ;;
    esac
    taskset -c $wrk_core wrk -t1 -c"$connections" -d"${seconds}s" --latency ${more[@]+"${more[@]}"} "$url"
}

# Returns whether a peer takes a load: a bare proxy refuses nothing, and two servers of nginx differ in the version of HTTP.
takes() { # PEER LOAD
    case "$1 $2" in
    "sluicegate "*) return 0 ;;
    "http2 http2"*) return 0 ;;
    *" http2"*) return 1 ;;
    "bare refused" | "bare connect" | "bare "*tls | "buffered "*tls | "haproxy "*tls) return 1 ;;
    "http2 "*) return 1 ;;
    esac
}

# One run: appends "round load peer cpu_us rps p50_us p99_us rss_mb kernel_us" to the results.
measure() { # ROUND LOAD PEER
    local round=$1 load=$2 peer=$3 port pid path before after kernel_before kernel_after
    port=${peer}_port pid=${peer}_pid path=/open
    case "$load" in
    refused | http2-refused | connect | connect-tls) path=/closed ;;
    large) path=/large ;;
    esac
    local url="http://127.0.0.1:${!port}$path"
    case "$load" in
    tls | connect-tls)
        port=${peer}_tls_port
        url="https://127.0.0.1:${!port}$path"
        ;;
    esac
    send "$load" 1 "$url" >/dev/null
    before=$(ticks "${!pid}") kernel_before=$(kernel_ticks "${!pid}")
    send "$load" "$seconds" "$url" >"$dir/wrk"
    after=$(ticks "${!pid}") kernel_after=$(kernel_ticks "${!pid}")
    find "$dir" \( -name '*access.log' -o -name '*.out' \) -exec truncate -s 0 {} +
    local rss
    rss=$(awk '/^VmRSS/ { printf "%.0f", $2 / 1024 }' "/proc/${!pid}/status")
    awk -v round="$round" -v load="$load" -v peer="$peer" -v ticks=$((after - before)) -v kernel=$((kernel_after - kernel_before)) \
        -v hertz="$hertz" -v rss="$rss" -v seconds="$seconds" "$microseconds"'
        / requests in / { requests = $1 }
        # The line of paced.
        /^sent / { requests = $2; refused = $2 - $4; rps = $2 / seconds; p50 = $10; p99 = $12 }
        # The lines of h2load.
        /^finished in/ { rps = $4 }
        /^requests:/ { requests = $2; refused = requests - $8 }
        /^Requests\/sec/ { rps = $2 }
        /Non-2xx or 3xx/ { refused = $NF }
        /Socket errors/ { errors = $0 }
        $1 == "50%" { p50 = us($2) }
        $1 == "99%" { p99 = us($2) }
        END {
            wrong = load ~ /refused|connect/ ? requests - refused : refused
            if (requests == 0 || wrong > requests / 1000 || errors != "") {
                printf "%s, %s: %d of %d answers are not as they should be. %s\n", peer, load, wrong, requests, errors \
                    > "/dev/stderr"
                exit 1
            }
            us_per_tick = 1e6 / hertz / requests
            printf "%d %s %s %.2f %.0f %.0f %.0f %s %.2f\n", round, load, peer, ticks * us_per_tick, rps, p50, p99, rss, kernel * us_per_tick
        }' "$dir/wrk" | tee -a "$dir/results" >&2
}

# Half the rate at which nginx answers the first load.
case " $loads " in *" half "*)
    send admitted 2 "http://127.0.0.1:$nginx_port/open" >"$dir/wrk"
    half_rate=$(awk '/^Requests\/sec/ { printf "%d", $2 / 2 }' "$dir/wrk")
    ;;
esac

echo "round load peer cpu_us requests/s p50_us p99_us rss_mb kernel_us" >&2
for round in $(seq "$rounds"); do
    # shellcheck disable=SC2086 # one word a peer
    order=$(in_turn "$round" $peers)
    for load in $loads; do
        for peer in $order; do
            ! takes "$peer" "$load" || measure "$round" "$load" "$peer"
        done
    done
done

report() {
    measured
    awk -v peers="$peers" -v chosen="$loads" "$compared"'
        { keep() }
        END {
            title["sluicegate"] = "Sluicegate"; title["bare"] = "bare Pingora"; title["nginx"] = "nginx `limit_req`"
            title["buffered"] = "nginx, buffered log"; title["haproxy"] = "HAProxy stick table"
            title["http2"] = "nginx `limit_req`"
            name["admitted"] = "All admitted"; name["refused"] = "All refused"; name["upload"] = "Uploads of 10 KB"
            name["connect"] = "All refused, a connection each"; name["connect-tls"] = "All refused, a connection with a handshake of TLS 1.3 each"
            name["large"] = "Answers of 100 KB"; name["http2"] = "All admitted, HTTP/2 in clear text from clients"
            name["http2-refused"] = "All refused, HTTP/2 in clear text from clients"
            name["tls"] = "All admitted, TLS 1.3 from clients"; name["half"] = "All admitted, at half the rate that nginx reaches"
            number_of_loads = split(chosen, loads, " "); number = split(peers, names, " ")
            for (l = 1; l <= number_of_loads; l++) {
                load = loads[l]
                printf "\n**%s**\n\n", name[load]
                half = load == "half"
                print "| proxy | CPU µs a request | of them in the kernel | requests/s | p50 µs | p99 µs | RSS MB | Sluicegate’s CPU to this (min–max) |" \
                    (half ? " its p99 to this (min–max) |" : "")
                print "|---|---|---|---|---|---|---|---|" (half ? "---|" : "")
                for (n = 1; n <= number; n++) if ((load, names[n]) in seen) {
                    peer = names[n]
                    printf "| %s | %.1f | %.1f | %d | %d | %d | %d | %s |%s\n", title[peer], middle(load, peer, "cpu"), \
                        middle(load, peer, "kernel"), middle(load, peer, "rate"), middle(load, peer, "p50"), \
                        middle(load, peer, "p99"), middle(load, peer, "rss"), ratio(load, "sluicegate", peer, "cpu"), \
                        (half ? " " ratio(load, "sluicegate", peer, "p99") " |" : "")
                }
            }
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between "$table" "$dir/report"
