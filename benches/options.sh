# shellcheck shell=bash
# Reads the options of a script. To be sourced first; the script has a function `usage`, and a default for each variable that an option sets.

# Sets the variable that each option names: `--rounds 3` sets `rounds` where VALUES has that word, `--write` sets `write` to yes where FLAGS
# has it. Ends the script with its usage where neither has, or where the value is absent.
read_options() { # VALUES FLAGS ARGUMENT…
    local values=$1 flags=$2
    shift 2
    while [ $# -gt 0 ]; do
        if [[ $1 == --?* && " $flags " == *" ${1#--} "* ]]; then
            printf -v "${1#--}" yes
            shift
        elif [[ $1 == --?* && $# -gt 1 && " $values " == *" ${1#--} "* ]]; then
            printf -v "${1#--}" %s "$2"
            shift 2
        else
            usage >&2
            exit 64
        fi
    done
}
