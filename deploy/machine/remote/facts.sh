# What this machine is: name=value lines. Fed to `sh -s`; needs nothing but sh and coreutils.
say() { printf '%s=%s\n' "$1" "$2"; }

if [ -r /etc/os-release ]; then
    say os "$(. /etc/os-release && printf '%s' "${PRETTY_NAME:-$NAME}")"
else
    say os "$(uname -s)"
fi
say arch "$(uname -m)"
say cpu_count "$(nproc)"
while read -r name value _; do
    [ "$name" = MemTotal: ] && say memory_kib "$value"
done </proc/meminfo
if [ -r /sys/fs/cgroup/memory.max ]; then # a container's own limit
    read -r limit </sys/fs/cgroup/memory.max
    [ "$limit" = max ] || say memory_limit "$limit"
fi
place=$HOME
[ "$(id -u)" = 0 ] && place=/var/lib
df -Pk "$place" | {
    read -r _
    read -r _ _ _ free _
    say disk_free_kib "$free"
}
for python in python3 /usr/bin/python3 /usr/local/bin/python3 /opt/conda/bin/python3; do
    if command -v "$python" >/dev/null 2>&1; then
        say python "$("$python" -E -s -c 'import platform; print(platform.python_version())' 2>/dev/null)"
        break
    fi
done
if command -v nvidia-smi >/dev/null 2>&1; then
    nvidia-smi --query-gpu=memory.total,driver_version,compute_cap,name --format=csv,noheader,nounits 2>/dev/null |
        while read -r row; do say gpu "$row"; done
fi
exit 0
