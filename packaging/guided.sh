#!/usr/bin/env bash
# Builds the release binary guided by a profile of itself, in three steps: a build that counts what it executes, a training under the
# loads below, and the build that uses the counts.
#
# A gateway's code is many times what a processor's caches hold. So guided, what is executed often lies together and what is not lies
# apart: a proxied request costs a third less (docs/benchmarks.md). The result is $CARGO_TARGET_DIR/guided/sluicegate, without symbols.
#
# Loads go to the loopback, for half a minute; nothing is ended but what was started here.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/sbin:/usr/sbin"
export LC_ALL=C

until_counted=no bare=no
usage() {
    cat <<'USAGE'
usage: packaging/guided.sh [--until-counted] [--bare]

  --until-counted  only the first build: what a container's layer of dependencies needs
  --bare           the bare proxy of benches/edge.sh too, trained alike
USAGE
}
for option in "$@"; do
    case "$option" in
    --until-counted) until_counted=yes ;;
    --bare) bare=yes ;;
    *) usage >&2 && exit 64 ;;
    esac
done

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
made=$target/guided
host=$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "$made"

# With a target of its own name the flags are not for build scripts and macros, which would count too.
build() { # DIRECTORY FLAGS
    build_one "$1" "$2" --features otlp --bin sluicegate
    [ "$bare" = no ] || build_one "$1" "$2" --manifest-path benches/bare/Cargo.toml
}

build_one() { # DIRECTORY FLAGS TARGET...
    local directory=$1 flags=$2
    shift 2
    RUSTFLAGS="${RUSTFLAGS:-} $flags" CARGO_TARGET_DIR="$made/$directory" cargo build --release --locked --target "$host" "$@"
}

echo "==> the build that counts" >&2
build counting "-Cprofile-generate=$made/counts"
[ "$until_counted" = no ] || exit 0

# A profile belongs to what was counted, and to the training: while these stay, so does it, and nothing is built twice.
counting=$made/counting/$host/release
trained="$counting/sluicegate packaging/guided.sh packaging/guided/*"
[ "$bare" = no ] || trained="$trained $counting/bare"
# shellcheck disable=SC2086 # several words
profile=$made/profile-$(cat $trained | sha256sum | cut -c1-16)

profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
[ -x "$profdata" ] || rustup component add llvm-tools >&2 || true
[ -x "$profdata" ] || profdata=$(command -v llvm-profdata) || {
    echo "this needs llvm-profdata of the compiler's own version: rustup component add llvm-tools" >&2
    exit 1
}
for command in nginx wrk h2load openssl; do
    command -v "$command" >/dev/null || { echo "the training needs $command; ./dev release installs it" >&2 && exit 1; }
done

. benches/start.sh

# Ends a process in good order, which is when it writes what it counted.
end() { # PID
    kill -INT "$1"
    wait "$1" || true
    pids=${pids/$1/}
}

http1() { wrk -t1 -c32 -d"$@" >/dev/null; }
http2() { h2load -c8 -m16 -D"$@" >/dev/null; }
replay() { # FORMAT
    awk -f packaging/guided/access_log.awk -v lines=200000 -v keys=20000 -v format="$1" >"$dir/replayed"
    "$counting/sluicegate" replay "$dir/replayed" --config "$dir/gateway.toml" >/dev/null 2>&1
}

train() {
    local name file body clear tls gateway
    for name in origin clear tls admin bare; do free_port "${name}_port"; done
    mkdir "$dir/logs"
    body=$(printf '%01024d' 0)
    # shellcheck disable=SC2154 # set by free_port, as `dir` by start.sh
    for file in origin.conf gateway.toml; do
        sed -e "s|{dir}|$dir|g" -e "s|{body}|$body|g" -e "s|{origin}|$origin_port|g" -e "s|{clear}|$clear_port|g" \
            -e "s|{tls}|$tls_port|g" -e "s|{admin}|$admin_port|g" "packaging/guided/$file" >"$dir/$file"
    done
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost \
        -keyout "$dir/key.pem" -out "$dir/certificate.pem" 2>/dev/null

    rm -rf "$made/counts"
    start origin any "$origin_port" nginx -p "$dir" -e "$dir/origin.err" -c "$dir/origin.conf"
    start gateway any "$clear_port" "$counting/sluicegate" run --config "$dir/gateway.toml"
    gateway=$started
    clear=http://127.0.0.1:$clear_port tls=https://127.0.0.1:$tls_port
    http1 8s "$clear/"
    http1 4s "$clear/auth/sendOTP"
    http1 2s -s packaging/guided/post.lua "$clear/login"
    http1 2s "$clear/stored"
    http1 2s -H "Accept-Encoding: gzip" "$clear/packed"
    http1 3s "$tls/"
    http1 1s -H "Connection: close" "$tls/"
    http2 3 "$tls/"
    http2 2 "$tls/auth/sendOTP"
    http2 1 "$clear/"
    end "$gateway"
    replay combined
    replay sluicegate
    if [ "$bare" = yes ]; then
        start bare any "$bare_port" "$counting/bare" "127.0.0.1:$bare_port" "127.0.0.1:$origin_port"
        http1 8s "http://127.0.0.1:$bare_port/"
        end "$started"
    fi
    "$profdata" merge --output "$dir/profile" "$made/counts"
    rm -f "$made"/profile-*
    mv "$dir/profile" "$profile"
}

if [ ! -e "$profile" ]; then
    echo "==> the training" >&2
    train
fi

echo "==> the build that is guided" >&2
build using "-Cprofile-use=$profile"
install -s "$made/using/$host/release/sluicegate" "$made/sluicegate"
[ "$bare" = no ] || install -s "$made/using/$host/release/bare" "$made/bare"
echo "==> $made/sluicegate" >&2
