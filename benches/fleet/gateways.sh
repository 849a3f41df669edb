# shellcheck shell=bash
# What fleet.sh and outage.sh share: an origin that counts, and gateways in front of it. To be sourced behind processes.sh. It leaves
# `gateways`, their process ids, and `addresses`, where they listen.

mkdir "$dir/logs"
for name in origin listen1 listen2 listen3 admin1 admin2 admin3; do free_port "$name"; done

body=$(printf '%0100d' 0)
sed -e "s|{dir}|$dir|g" -e "s|{origin}|$origin|g" -e "s|{body}|$body|g" benches/fleet/origin.conf >"$dir/origin.conf"
start origin any "$origin" nginx -p "$dir" -e "$dir/origin-error.log" -c "$dir/origin.conf"

# Starts so many gateways; STORE are lines of [store], and MODE is what their limit says, with what `limit_lines` says besides.
start_gateways() { # NUMBER MODE STORE
    local number store="" mode=${limit_lines:-}
    if [ "$2" != local ]; then
        store="[store]\n$3"
        mode="store = \"$2\"\n$mode"
    fi
    lasting=$pids gateways="" addresses=""
    for number in $(seq "$1"); do
        local listen=listen$number admin=admin$number
        # A directory for each, since each watches its own.
        mkdir -p "$dir/$number"
        sed -e "s|{dir}|$dir|g" -e "s|{name}|gateway$number|g" -e "s|{listen}|${!listen}|g" -e "s|{admin}|${!admin}|g" \
            -e "s|{origin}|$origin|g" -e "s|{store}|$store|g" -e "s|{mode}|$mode|g" \
            benches/fleet/sluicegate.toml >"$dir/$number/gateway.toml"
        start "gateway$number" any "${!listen}" "$release/sluicegate" run --config "$dir/$number/gateway.toml"
        gateways="$gateways $started"
        addresses="$addresses,127.0.0.1:${!listen}"
    done
    addresses=${addresses#,}
    # The first heartbeats and the scripts, which belong to no request. And every run begins where a window does, so that each can
    # admit the same.
    sleep 2
    sleep "$(awk -v now="$(date +%s.%N)" 'BEGIN { print 10 - now % 10 }')"
}

stop_gateways() {
    # shellcheck disable=SC2086 # one word a process
    { kill -KILL $gateways && wait $gateways; } 2>/dev/null || true
    pids=$lasting
    find "$dir" \( -name '*.log' -o -name '*.out' \) -exec truncate -s 0 {} +
}

# Requests that the origin answered.
counted() { curl -s "http://127.0.0.1:$origin/count" | awk 'NR == 3 { print $3 }'; }
