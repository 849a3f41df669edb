#!/usr/bin/env bash
# Prints how many lines `sluicegate replay` judges in a second of CPU time, for two formats and three numbers of keys: the best of three runs
# on one core. CPU time, since others share the machine; `wc -l` of the same file is the floor of reading it.
#
#   benches/replay.sh [LINES]     default 3,000,000
set -eu
cd "$(dirname "$0")/.."
lines=${1:-3000000}
gateway=${SLUICEGATE:-target/release/sluicegate}
[ -x "$gateway" ] || { echo "$gateway does not exist; run cargo build --release --features otlp, or set SLUICEGATE" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/gateway.toml" <<'TOML'
[[listener]]
address = "127.0.0.1:1"
[limit.client]
key = "client.ip"
rates = ["100 per 10s"]
capacity = 1000000
[[route]]
path = "/*"
limits = ["client"]
respond = { status = 200 }
TOML

# Writes a log: FORMAT KEYS.
generate() {
    awk -f packaging/guided/access_log.awk -v lines="$lines" -v format="$1" -v keys="$2" > "$work/log"
}

# Runs a command three times; prints the least CPU time in milliseconds.
best() {
    local TIMEFORMAT='%U %S'
    for _ in 1 2 3; do
        { time "$@" > /dev/null 2>&1; } 2>&1
    done | awk '{ print int(($1 + $2) * 1000) }' | sort -n | head -1
}

printf '%-12s %10s %12s %12s %14s\n' format keys 'ns a line' lines/s 'floor lines/s'
for keys in 1000 100000 1000000; do
    for format in combined sluicegate; do
        generate "$format" "$keys"
        floor=$(best wc -l "$work/log")
        took=$(best taskset -c 0 "$gateway" replay "$work/log" --config "$work/gateway.toml" --json)
        awk -v f="$format" -v k="$keys" -v ms="$took" -v c="$floor" -v n="$lines" \
            'BEGIN { printf "%-12s %10d %12d %12d %14d\n", f, k, ms * 1000000 / n, n * 1000 / ms, n * 1000 / (c > 0 ? c : 1) }'
    done
done
