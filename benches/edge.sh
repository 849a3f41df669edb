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

# A row a load, and the CPU time to each peer; then the latencies of the load that saturates nobody.
report() {
    measured
    awk -v peers="$peers" -v chosen="$loads" "$compared"'
        { keep() }
        # The peer of this column under a load: nginx has a server of its own for HTTP/2.
        function at(load, column) { return column == "nginx" && (load, "http2") in seen ? "http2" : column }
        function beside(load, peer) { return (load, peer) in seen ? ratio(load, "sluicegate", peer, "cpu") : "–" }
        # h2load reports no percentiles.
        function late(load,    p99) { p99 = middle(load, "sluicegate", "p99"); return p99 ? sprintf("%d", p99) : "–" }
        END {
            title["sluicegate"] = "Sluicegate"; title["bare"] = "bare Pingora"; title["nginx"] = "nginx `limit_req`"
            title["buffered"] = "nginx, buffered log"; title["haproxy"] = "HAProxy stick table"
            name["admitted"] = "admitted"; name["refused"] = "refused"; name["upload"] = "uploads"; name["large"] = "large answers"
            name["connect"] = "refused, a connection each"; name["connect-tls"] = "refused, a handshake of TLS each"
            name["http2"] = "admitted, HTTP/2"; name["http2-refused"] = "refused, HTTP/2"
            name["tls"] = "admitted, TLS"; name["half"] = "admitted, half the rate"
            number_of_loads = split(chosen, loads, " "); number = split(peers, names, " ")
            heads = "| load | CPU µs | in the kernel | requests/s | p99 µs | RSS MB |"; rule = "|---|---|---|---|---|---|"
            for (n = 1; n <= number; n++) if (names[n] in title && names[n] != "sluicegate") {
                heads = heads " to " title[names[n]] " |"; rule = rule "---|"
            }
            print "\n" heads "\n" rule
            for (l = 1; l <= number_of_loads; l++) {
                load = loads[l]
                printf "| %s | %.1f | %.1f | %d | %s | %d |", name[load], middle(load, "sluicegate", "cpu"), middle(load, "sluicegate", "kernel"), \
                    middle(load, "sluicegate", "rate"), late(load), middle(load, "sluicegate", "rss")
                for (n = 1; n <= number; n++) if (names[n] in title && names[n] != "sluicegate")
                    printf " %s |", beside(load, at(load, names[n]))
                print ""
            }
            if (("half", "sluicegate") in seen) {
                print "\n| half the rate | p50 µs | p99 µs | RSS MB | Sluicegate’s p99 to this |\n|---|---|---|---|---|"
                for (n = 1; n <= number; n++) if (("half", names[n]) in seen)
                    printf "| %s | %d | %d | %d | %s |\n", title[names[n]], middle("half", names[n], "p50"), \
                        middle("half", names[n], "p99"), middle("half", names[n], "rss"), ratio("half", "sluicegate", names[n], "p99")
            }
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between "$table" "$dir/report"
