#!/usr/bin/env bash
# What does one request cost the proxy, beside nginx, HAProxy and a bare Pingora?
#
# `table` has a line for each load: who sends it, where to, and its name in the report. The figure is the proxy's own CPU time a request,
# read from /proc, because it is what a busy machine runs out of, and because it hardly depends on how fast the load generator is. The part
# that the kernel takes is shown too: what a proxy sends and receives for a request costs every proxy the same there. `half` is paced at
# half the rate that nginx reaches, for the latencies of a proxy that is not saturated.
# Ratios are formed inside a round and only then compared: on a shared machine two rounds differ more than two proxies do.
#
# NGINX=… and HAPROXY=… name other binaries of the peers than those of the PATH. The proxy runs on core 0, origin and load elsewhere.
# Loopback only, a temporary directory, and nothing is ended but what was started here. benches/README.md says how to read the tables.
set -euo pipefail
cd "$(dirname "$0")/.."
. benches/options.sh

# A load: its name, its client as `send` starts it, the port of each peer, the path, and its name in the report. The port `tls` speaks both
# versions.
table='admitted        wrk            http  /open    admitted
refused            wrk            http  /closed  refused
cached             wrk            http  /cached  cached
connect            wrk-connect    http  /closed  refused, a connection each
connect-tls        wrk-connect    tls   /closed  refused, a handshake of TLS each
upload             wrk-upload     http  /open    uploads
large              wrk            http  /large   large answers
tls                wrk            tls   /open    admitted, TLS
tls-http2          h2load         tls   /open    admitted, TLS and HTTP/2
tls-http2-refused  h2load         tls   /closed  refused, TLS and HTTP/2
tls-http2-cached   h2load         tls   /cached  cached, TLS and HTTP/2
http2              h2load         h2c   /open    admitted, HTTP/2
http2-refused      h2load         h2c   /closed  refused, HTTP/2
half               paced          http  /open    admitted, half the rate'

rounds=5 seconds=8 connections=32 threads=1 write=no guided=no section=edge loads=$(awk '{ printf "%s ", $1 }' <<<"$table")
usage() {
    echo "usage: benches/edge.sh [--rounds N] [--seconds N] [--loads LIST] [--threads N] [--guided] [--write]"
    echo "  (5 rounds of 8 s; loads are $loads, all by default; --threads are those of the gateway, 1 by default, all on one core; --guided measures what ships, built by packaging/guided.sh; --write updates docs/benchmarks.md)"
}
read_options "rounds seconds loads threads" "guided write" "$@"
[ "$guided" = no ] || section=edge-guided

nginx=${NGINX:-nginx} haproxy=${HAPROXY:-haproxy}
needs="$nginx wrk h2load openssl taskset cargo"
. benches/processes.sh
case " $loads " in *" half "*) cargo build --release --locked --example paced >&2 ;; esac
paced=${CARGO_TARGET_DIR:-target}/release/examples/paced

mkdir "$dir/www"
head -c 100000 /dev/zero | tr '\0' 0 >"$dir/www/large"
edge_files origin.conf nginx.conf sluicegate.toml haproxy.cfg
# The gateway speaks both versions on one port.
sluicegate_h2c_port=$sluicegate_port
sed -i "s/^threads = .*/threads = $threads/" "$dir/sluicegate.toml"
# Where HAProxy looks for the key of a certificate.
cp "$dir/key.pem" "$dir/cert.pem.key"
start origin $origin_core "$origin_port" "$nginx" -p "$dir" -e "$dir/origin-error.log" -c "$dir/origin.conf"
start sluicegate $proxy_core "$sluicegate_port" "$release/sluicegate" run --config "$dir/sluicegate.toml"
sluicegate_pid=$started
start bare $proxy_core "$bare_port" "$release/bare" "127.0.0.1:$bare_port" "127.0.0.1:$origin_port"
bare_pid=$started
start nginx $proxy_core "$nginx_port" "$nginx" -p "$dir" -e "$dir/nginx-error.log" -c "$dir/nginx.conf"
nginx_pid=$started buffered_pid=$started
peers="sluicegate bare nginx buffered"
with="$("$nginx" -v 2>&1 | sed 's/.*: //')"
if command -v "$haproxy" >/dev/null; then
    start haproxy $proxy_core "$haproxy_port" "$haproxy" -db -f "$dir/haproxy.cfg"
    haproxy_pid=$started
    peers="$peers haproxy"
    with="$with, $("$haproxy" -v | awk 'NR == 1 { print "HAProxy/" $3 }')"
fi

# Sends a load for so many seconds.
# shellcheck disable=SC2086 # several words
send() { # CLIENT SECONDS URL
    local wrk="wrk -t1 -c$connections -d${2}s --latency" to=${3#http://}
    case "$1" in
    wrk) set -- $wrk "$3" ;;
    wrk-upload) set -- $wrk -s benches/edge/upload.lua "$3" ;;
    wrk-connect) set -- $wrk -H "Connection: close" "$3" ;;
    h2load) set -- h2load --duration="$2" --clients=8 --max-concurrent-streams=16 "$3" ;;
    paced) set -- "$paced" --to "${to%%/*}" --path "/${to#*/}" --seconds "$2" --connections "$connections" --rate "$half_rate" ;;
    esac
    taskset -c $wrk_core "$@"
}

# One run of a load, unless the peer has no port for it: appends "round load peer cpu_us rps p50_us p99_us rss_mb kernel_us" to the
# results.
measure() { # ROUND PEER LOAD CLIENT LISTENER PATH
    local round=$1 peer=$2 load=$3 client=$4 listener=$5 path=$6 port pid before after kernel_before kernel_after url=http
    port=${peer}_${listener}_port pid=${peer}_pid
    [ "$listener" != http ] || port=${peer}_port
    case "$peer $path" in "bare /closed" | "bare /cached" | "buffered /cached") return ;; esac
    [ -n "${!port:-}" ] || return 0
    [ "$listener" != tls ] || url=https
    url="$url://127.0.0.1:${!port}$path"
    send "$client" 1 "$url" >/dev/null
    before=$(ticks "${!pid}") kernel_before=$(kernel_ticks "${!pid}")
    send "$client" "$seconds" "$url" >"$dir/wrk"
    after=$(ticks "${!pid}") kernel_after=$(kernel_ticks "${!pid}")
    find "$dir" \( -name '*access.log' -o -name '*.out' \) -exec truncate -s 0 {} +
    local rss
    rss=$(awk '/^VmRSS/ { printf "%.0f", $2 / 1024 }' "/proc/${!pid}/status")
    awk -v round="$round" -v load="$load" -v path="$path" -v peer="$peer" -v ticks=$((after - before)) \
        -v kernel=$((kernel_after - kernel_before)) -v hertz="$hertz" -v rss="$rss" -v seconds="$seconds" "$microseconds"'
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
            wrong = path == "/closed" ? requests - refused : refused
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
    send wrk 2 "http://127.0.0.1:$nginx_port/open" >"$dir/wrk"
    half_rate=$(awk '/^Requests\/sec/ { printf "%d", $2 / 2 }' "$dir/wrk")
    ;;
esac

echo "round load peer cpu_us requests/s p50_us p99_us rss_mb kernel_us" >&2
for round in $(seq "$rounds"); do
    # shellcheck disable=SC2086 # one word a peer
    order=$(in_turn "$round" $peers)
    for load in $loads; do
        read -r _ client listener path _ <<<"$(awk -v load="$load" '$1 == load' <<<"$table")"
        for peer in $order; do
            measure "$round" "$peer" "$load" "$client" "$listener" "$path"
        done
    done
done

# A row a load, and the CPU time to each peer; then the latencies of the load that saturates nobody.
report() {
    measured_with "$with, wrk with $connections connections, h2load with 8 of 16 streams each"
    awk -v peers="$peers" -v chosen="$loads" -v table="$table" "$compared"'
        { keep() }
        function beside(load, peer) { return (load, peer) in seen ? ratio(load, "sluicegate", peer, "cpu") : "–" }
        # h2load reports no percentiles.
        function late(load,    p99) { p99 = middle(load, "sluicegate", "p99"); return p99 ? sprintf("%d", p99) : "–" }
        END {
            title["sluicegate"] = "Sluicegate"; title["bare"] = "bare Pingora"; title["nginx"] = "nginx `limit_req`"
            title["buffered"] = "nginx, buffered log"; title["haproxy"] = "HAProxy stick table"
            for (line = split(table, lines, "\n"); line > 0; line--) {
                split(lines[line], words, " ")
                match(lines[line], / \/[a-z]+ +/)
                name[words[1]] = substr(lines[line], RSTART + RLENGTH)
            }
            number_of_loads = split(chosen, loads, " "); number = split(peers, names, " ")
            heads = "| load | CPU µs | in the kernel | requests/s | p99 µs | RSS MB |"; rule = "|---|---|---|---|---|---|"
            for (n = 1; n <= number; n++) if (names[n] != "sluicegate") {
                heads = heads " to " title[names[n]] " |"; rule = rule "---|"
            }
            print "\n" heads "\n" rule
            for (l = 1; l <= number_of_loads; l++) {
                load = loads[l]
                printf "| %s | %.1f | %.1f | %d | %s | %d |", name[load], middle(load, "sluicegate", "cpu"), middle(load, "sluicegate", "kernel"), \
                    middle(load, "sluicegate", "rate"), late(load), middle(load, "sluicegate", "rss")
                for (n = 1; n <= number; n++) if (names[n] != "sluicegate")
                    printf " %s |", beside(load, names[n])
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
[ "$write" = no ] || write_between "$section" "$dir/report"
