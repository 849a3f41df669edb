#!/usr/bin/env bash
# How often does a POST meet a connection that its origin is closing?
#
# An origin of Node closes each connection after a second without a request, and announces that or not. Four hundred clients send POSTs
# together, about every second, through the gateway or through nginx, both with connections kept for a minute. A POST is not sent
# twice, so one that meets the end of its connection is answered with 502.
#
# Loopback only, a temporary directory, and nothing is ended but what was started here. benches/README.md says how to read the table.
set -euo pipefail
cd "$(dirname "$0")/.."
. benches/options.sh

rounds=250 clients=400 seconds=1 write=no
usage() {
    echo "usage: benches/kept.sh [--rounds N] [--clients N] [--write]   (250 rounds of 400 clients, 20 minutes; --write updates docs/benchmarks.md)"
}
read_options "rounds clients" "write" "$@"

needs="nginx node cargo"
. benches/processes.sh
for name in announced quiet sluicegate_announced sluicegate_quiet nginx_announced nginx_quiet; do free_port "$name"; done
mkdir "$dir/logs"
cat >"$dir/gateway.toml" <<TOML
listener = [
    { name = "announced", address = "127.0.0.1:$sluicegate_announced" },
    { name = "quiet", address = "127.0.0.1:$sluicegate_quiet" },
]
log.access = "$dir/logs/access.log"
origin.announced.servers = ["127.0.0.1:$announced"]
origin.quiet.servers = ["127.0.0.1:$quiet"]
route = [
    { path = "/*", listeners = ["announced"], origin = "announced" },
    { path = "/*", listeners = ["quiet"], origin = "quiet" },
]
TOML
nginx_server() { # PORT ORIGIN
    cat <<CONF
    upstream origin$2 { server 127.0.0.1:$2; keepalive 512; }
    server {
        listen 127.0.0.1:$1;
        location / { proxy_pass http://origin$2; }
    }
CONF
}
cat >"$dir/nginx.conf" <<CONF
daemon off;
master_process off;
pid $dir/nginx.pid;
error_log $dir/logs/nginx-error.log crit;
events { worker_connections 4096; }
http {
    access_log $dir/logs/nginx-access.log;
    client_body_temp_path $dir/body;
    proxy_temp_path $dir/proxy;
    fastcgi_temp_path $dir/fastcgi;
    uwsgi_temp_path $dir/uwsgi;
    scgi_temp_path $dir/scgi;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
$(nginx_server "$nginx_announced" "$announced")
$(nginx_server "$nginx_quiet" "$quiet")
}
CONF
start origin any "$quiet" node benches/kept/origin.js "$announced" "$quiet"
start sluicegate any "$sluicegate_quiet" "$release/sluicegate" run --config "$dir/gateway.toml"
start nginx any "$nginx_quiet" nginx -p "$dir" -e "$dir/logs/nginx-error.log" -c "$dir/nginx.conf"

report() {
    measured_with "$(nginx -v 2>&1 | sed "s|.*: ||"), Node $(node --version), $clients clients"
    echo
    echo "| origin | proxy | POSTs | answered with 502 | other failures |"
    echo "|---|---|---|---|---|"
    local kind proxy port counts
    for kind in announced quiet; do
        for proxy in sluicegate nginx; do
            port=${proxy}_$kind
            counts=$(node benches/kept/clients.js "${!port}" "$clients" "$rounds")
            # shellcheck disable=SC2086 # three numbers
            printf '| %s | %s | %s | %s | %s |\n' "$kind" "$proxy" $counts
        done
    done
}

report | tee "$dir/report"
[ "$write" = no ] || write_between kept "$dir/report"
