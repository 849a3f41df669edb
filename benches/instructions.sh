#!/usr/bin/env bash
# Counts the user-space instructions of one request, by callgrind, beside nginx.
#
# h2load sends GETs over one kept connection through the proxy: admitted ones, then refused ones. Each proxy answers a few and then many
# of them, and the difference divided by the difference of the numbers is what one request takes; start and stop cancel out.
# A count of instructions hardly differs between two runs, beside other processes too, so it shows changes of one percent. It says nothing of
# the kernel or of cache misses: benches/edge.sh does.
#
# A GET of h2load has two fields. With --browser it has those of Chrome too, 15 in all. With --clients N connections share the waits of a
# thread, and with --http2 the GETs come over HTTP/2 in clear text, in 8 streams at once.
#
# Loopback only, a temporary directory, and nothing is ended but what was started here.
set -euo pipefail
cd "$(dirname "$0")/.."

requests=2000 clients=1 version=--h1 browser=()
usage() {
    echo "usage: benches/instructions.sh [--requests N] [--clients N] [--browser] [--http2] [BINARY...]"
    echo "  (2000 requests, 1 client; several binaries in turn; the release build by default)"
}
while [ $# -gt 0 ]; do
    case "$1" in
    --requests) requests=$2 && shift 2 ;;
    --clients) clients=$2 && shift 2 ;;
    --browser) mapfile -t browser < <(sed 's/^/--header=/' benches/edge/browser.txt) && shift ;;
    --http2) version=--max-concurrent-streams=8 && shift ;;
    -*) usage >&2 && exit 64 ;;
    *) break ;;
    esac
done

PATH="$PATH:/usr/local/sbin:/usr/sbin"
export LC_ALL=C
for command in nginx h2load openssl valgrind; do
    command -v "$command" >/dev/null || { echo "this bench needs $command" >&2 && exit 1; }
done
if [ $# -eq 0 ]; then
    cargo build --release --locked --bin sluicegate >&2
    set -- "${CARGO_TARGET_DIR:-target}/release/sluicegate"
fi

. benches/start.sh

edge_files origin.conf nginx.conf sluicegate.toml
start origin 0 "$origin_port" nginx -p "$dir" -e "$dir/origin-error.log" -c "$dir/origin.conf"

# Leaves in `counted` the instructions of a proxy that answers so many requests, from its start to its end.
instructions() { # REQUESTS PATH PORT COMMAND...
    local requests=$1 path=$2 port=$3
    shift 3
    start proxy 0 "$port" valgrind --tool=callgrind --callgrind-out-file="$dir/callgrind.out" "$@"
    h2load "$version" ${browser[@]+"${browser[@]}"} --requests="$requests" --clients="$clients" "http://127.0.0.1:$port$path" >"$dir/h2load"
    grep -q "$requests done" "$dir/h2load" || { cat "$dir/h2load" >&2 && exit 1; }
    kill -TERM "$started"
    wait "$started" || true
    counted=$(awk '/^(summary|totals):/ { print $2; exit }' "$dir/callgrind.out")
}

# Prints the row of a proxy. The first is the one that the others are compared with.
row() { # TITLE PORT COMMAND...
    local title=$1 few path cells=""
    shift
    for path in /open /closed; do
        instructions "$requests" "$path" "$@"
        few=$counted
        instructions $((3 * requests)) "$path" "$@"
        counted=$(((counted - few) / (2 * requests)))
        local first=first${path#/}
        [ -n "${!first:-}" ] || printf -v "$first" %s "$counted"
        cells="$cells | $counted | $(awk -v a="$counted" -v b="${!first}" 'BEGIN { printf "%.2f", a / b }')"
    done
    echo "| $title$cells |"
}

echo "| proxy | admitted GET | to nginx | refused GET | to nginx |"
echo "|---|---|---|---|---|"
nginx=$nginx_port
[ "$version" = --h1 ] || nginx=$nginx_h2c_port
row "nginx \`limit_req\`" "$nginx" nginx -p "$dir" -e "$dir/nginx-error.log" -c "$dir/nginx.conf"
for binary; do
    row "$binary" "$sluicegate_port" "$binary" run --config "$dir/sluicegate.toml"
done
