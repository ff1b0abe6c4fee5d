# Packages of Debian and Ubuntu; sourced by the other scripts.

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }

apt_install() {
    local options=(-o Acquire::Retries=3 -o DPkg::Lock::Timeout=120)
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y -q
        --no-install-recommends "$@")
    as_root apt-get "${options[@]}" update -q && as_root "${install[@]}" && return
    echo "apt-get failed; once more in 15 s"
    sleep 15
    as_root apt-get "${options[@]}" update -q
    as_root "${install[@]}"
}

require() { # require PACKAGE...: install packages, or say which are needed
    [ $# -eq 0 ] && return
    if ! can_be_root; then
        echo "Needs the packages $*: install them, or run as root or with sudo." >&2
        exit 1
    fi
    apt_install "$@"
}
