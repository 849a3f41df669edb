# shellcheck shell=bash
# Starts processes on free ports and ends them. To be sourced; ends what it started, and nothing else. It leaves `dir`, a temporary directory.

dir=$(mktemp -d)
pids=""
finish() {
    # At once: a proxy that drains would make us wait for nothing.
    # shellcheck disable=SC2086 # one word a process
    [ -z "$pids" ] || { kill -KILL $pids && wait $pids; } 2>/dev/null || true
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

ports=""
free_port() { # VARIABLE
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        case " $ports " in *" $port "*) continue ;; esac
        listening "$port" || break
    done
    ports="$ports $port"
    printf -v "$1" %s "$port"
}

# Picks the ports of a gateway, its peers and their origin, and writes these templates of benches/edge/ for them, with a certificate.
edge_files() { # TEMPLATE...
    local name fields=(-e "s|{dir}|$dir|g" -e "s|{body}|$(printf '%01024d' 0)|g")
    for name in origin sluicegate sluicegate_tls admin bare nginx nginx_tls nginx_h2c buffered haproxy haproxy_tls haproxy_h2c \
        caddy envoy envoy_admin; do
        free_port "${name}_port"
        local port=${name}_port
        fields+=(-e "s|{$name}|${!port}|g")
    done
    # Apart from the configuration, whose directory the gateway watches.
    mkdir "$dir/logs"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
        -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>"$dir/openssl.err"
    for name; do
        sed "${fields[@]}" "benches/edge/$name" >"$dir/$name"
    done
}

# Starts a process on a core, or on `any`, and waits until it listens. Its process id is left in `started`.
start() { # NAME CORE PORT COMMAND...
    local name=$1 core=$2 port=$3 pin="" try
    shift 3
    [ "$core" = any ] || pin="taskset -c $core"
    # Appending, so that the logs can be emptied between runs.
    # shellcheck disable=SC2086 # several words or none
    $pin "$@" >>"$dir/$name.out" 2>>"$dir/$name.err" &
    started=$!
    pids="$pids $started"
    for try in $(seq 300); do
        listening "$port" && return
        kill -0 "$started" 2>/dev/null || break
        sleep 0.1
    done
    echo "$name does not listen on $port (try $try):" >&2
    cat "$dir/$name.err" >&2
    exit 1
}
