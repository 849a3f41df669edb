# shellcheck shell=bash
# What the scripts share that measure running proxies: they start processes, mostly on cores of their own, and read what these used. To
# be sourced, at the root of the tree; ends what it started, and nothing else. `needs` and `example` may be set before: the commands that
# the script calls, and what is built beside the gateway; with `guided` the binary that ships is measured, and the bare proxy built alike;
# with `gateway` neither is built, since that names a gateway that is.
#
# It leaves `dir`, a temporary directory, `release`, where the build lies, `cores`, and the `*_core` of each part.
set -euo pipefail
PATH="$PATH:/usr/local/sbin:/usr/sbin"
export LC_ALL=C

for command in ${needs:-nginx wrk openssl taskset cargo}; do
    command -v "$command" >/dev/null || { echo "this bench needs $command; ./dev bench installs it" >&2 && exit 1; }
done
cores=$(nproc)
[ "$cores" -ge 2 ] || { echo "this bench needs two cores: one for the proxy, one for origin and wrk" >&2 && exit 1; }
proxy_core=0 origin_core=1 wrk_core=$((cores > 2 ? 2 : 1))

if [ -n "${gateway:-}" ]; then
    release=$(dirname "$gateway")
elif [ "${guided:-no}" = yes ]; then
    echo "building what ships (half an hour the first time)" >&2
    packaging/guided.sh --bare >&2
    release=${CARGO_TARGET_DIR:-target}/guided
else
    echo "building the release profile (several minutes the first time)" >&2
    cargo build --release --locked --bin sluicegate >&2
    release=${CARGO_TARGET_DIR:-target}/release
    # Apart: a build with an example has the features of [dev-dependencies], such as the test clock of tokio.
    if [ -n "${example:-}" ]; then
        cargo build --release --locked --example "$example" >&2
    else
        cargo build --release --locked --manifest-path benches/bare/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}" >&2
    fi
fi

. benches/start.sh

# CPU time of a process with all its threads, in clock ticks: fields 14 and 15 of stat, counted behind the name.
ticks() { # PID
    sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}
# The part of it that the kernel took: field 15.
kernel_ticks() { # PID
    sed 's/.*) //' "/proc/$1/stat" | awk '{ print $13 }'
}
hertz=$(getconf CLK_TCK)

# For awk: the median of a list, which is left sorted.
# shellcheck disable=SC2034,SC2016 # used where this is sourced, by awk
median='
function median(list, count,    i, j, swap) {
    for (i = 2; i <= count; i++)
        for (j = i; j > 1 && list[j - 1] > list[j]; j--) { swap = list[j]; list[j] = list[j - 1]; list[j - 1] = swap }
    return count == 0 ? "" : count % 2 ? list[(count + 1) / 2] : (list[count / 2] + list[count / 2 + 1]) / 2
}
'

# For awk: the figures of lines "round load peer cpu rate p50 p99 rss kernel", by these names, and what they come to over the rounds.
# shellcheck disable=SC2034,SC2016 # as above
compared="$median"'
function keep() {
    rounds = $1; seen[$2, $3] = 1
    value[$1, $2, $3, "cpu"] = $4; value[$1, $2, $3, "rate"] = $5; value[$1, $2, $3, "p50"] = $6
    value[$1, $2, $3, "p99"] = $7; value[$1, $2, $3, "rss"] = $8
    value[$1, $2, $3, "kernel"] = $9
}
# The median of one column.
function middle(load, peer, column,    list, round) {
    for (round = 1; round <= rounds; round++) list[round] = value[round, load, peer, column]
    return median(list, rounds)
}
# The median of this peer to that one, each formed inside its round; with the smallest and largest.
function ratio(load, peer, other, column,    list, round, half) {
    if (peer == other) return "1"
    for (round = 1; round <= rounds; round++)
        list[round] = value[round, load, peer, column] / value[round, load, other, column]
    half = median(list, rounds)
    return sprintf("%.2f (%.2f–%.2f)", half, list[1], list[rounds])
}
'

# The peers in the order of a round: every other one runs backwards, so that nobody always follows the same neighbour.
in_turn() { # ROUND PEER...
    local round=$1
    shift
    if [ $((round % 2)) -eq 1 ]; then echo "$*"; else printf '%s\n' "$@" | tac | tr '\n' ' '; fi
}

# For awk: a time of wrk, as microseconds.
# shellcheck disable=SC2034,SC2016 # as above
microseconds='
function us(text) { return text ~ /us$/ ? text + 0 : text ~ /ms$/ ? text * 1000 : text * 1000000 }
'

# A line that says when, where and how was measured.
# shellcheck disable=SC2154 # set where this is sourced
measured() {
    measured_with "$(nginx -v 2>&1 | sed 's/.*: //'), wrk with $connections connections"
}

# The same, with what was measured beside the gateway.
measured_with() { # PEERS
    echo "Measured $(date -u +%Y-%m-%d) at commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $cores cores," \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r)," \
        "$1, $rounds rounds of $seconds s."
}

# Puts a report into docs/benchmarks.md, between the marks of this name.
write_between() { # NAME REPORT
    awk -v name="$1" -v report="$2" '
        $0 ~ "<!-- " name ":begin -->" { print; while ((getline line < report) > 0) print line; inside = 1 }
        $0 ~ "<!-- " name ":end -->" { print; inside = 0; next }
        !inside
    ' docs/benchmarks.md >"$dir/benchmarks.md"
    cp "$dir/benchmarks.md" docs/benchmarks.md
    echo "written to docs/benchmarks.md" >&2
}
