#!/usr/bin/env bash
# Runs nginx's own tests (https://github.com/nginx/nginx-tests) against the gateway, with what `sluicegate import` makes of each
# configuration.
# README.md beside it says which of them pass, and why others do not.
#
#   tests/nginx-tests/run.sh CHECKOUT [TEST.t...]
#
# It needs nginx, perl and python3. SLUICEGATE is the binary, target/debug/sluicegate by default.
set -eu

if [ $# -lt 1 ]; then
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 64
fi
here=$(cd "$(dirname "$0")" && pwd)
checkout=$1
shift
SLUICEGATE=$(realpath "${SLUICEGATE:-$here/../../target/debug/sluicegate}")
export SLUICEGATE
export TEST_NGINX_BINARY=$here/shim.py
export PERL5OPT="-I$here -MWire"
PATH="$PATH:/usr/local/sbin:/usr/sbin"

cd "$checkout"
if [ $# -eq 0 ]; then
    set -- limit_req*.t limit_conn*.t limit_rate.t proxy.t access.t
fi
for test; do
    report=$(prove -v "$test" 2>/dev/null || true)
    # Each test ends with two assertions about nginx's error log.
    planned=$(grep -m1 -oE '^1\.\.[0-9]+' <<<"$report" | cut -c4- || true)
    if [ -z "$planned" ]; then
        echo "$test: does not start, or is skipped"
        continue
    fi
    planned=$((planned - 2))
    failed=$(grep -E '^not ok' <<<"$report" || true)
    passed=$(grep -E '^ok [0-9]' <<<"$report" | grep -vE '# (skip|TODO)' | grep -vcE 'no (alerts|sanitizer errors)' || true)
    echo "$test: $passed of $planned"
    [ -z "$failed" ] || sed 's/^/    /' <<<"$failed"
done
