"""Process 1 of a lab: mounts its root, goes into it, then reaps orphans until it is killed.

Started by `space.py` in new namespaces, as `python3 init.py LIFELINE REPORT`. Its mounts live in its
own mount namespace and all processes of the lab in its pid namespace, so killing it ends both.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

# LAB_LOWER is the cached root, LAB_DIR the folder of the lab.
MOUNTS = """
set -eu
mount --make-rprivate /
root=$LAB_DIR/root
mkdir -p $LAB_DIR/upper $LAB_DIR/work $root
layers=lowerdir=$LAB_LOWER,upperdir=$LAB_DIR/upper,workdir=$LAB_DIR/work
if ! mount -t overlay overlay -o $layers,volatile $root 2>/dev/null &&
   ! mount -t overlay overlay -o $layers $root 2>/dev/null; then
    cp -a --reflink=auto $LAB_LOWER/. $root/
    mount --bind $root $root
fi
mount -t proc proc $root/proc
mount -t sysfs -o ro sysfs $root/sys
mount -t tmpfs -o mode=755 dev $root/dev
mount -t tmpfs -o mode=755 run $root/run
mkdir $root/dev/pts $root/dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts $root/dev/pts
mount -t tmpfs -o mode=1777 shm $root/dev/shm
ln -s pts/ptmx $root/dev/ptmx
ln -s /proc/self/fd $root/dev/fd
for row in null,3 zero,5 full,7 random,8 urandom,9; do
    mknod -m 666 $root/dev/${row%,*} c 1 ${row#*,}
done
mknod -m 666 $root/dev/tty c 5 0
for gpu in 0 1 2 3 4 5 6 7; do
    mknod -m 666 $root/dev/nvidia$gpu c 1 3
done
hostname $LAB_HOSTNAME
if [ $LAB_OWN_NETWORK = True ]; then
    ip link set lo up
    ip addr add 10.99.0.1/32 dev lo
fi
"""


def main(lifeline_fd: int, report_fd: int) -> None:
    """Enter the root, report this process's id on the host, and stay."""
    host_pid = os.readlink("/proc/self")
    subprocess.run(["sh", "-c", MOUNTS], check=True)
    os.chroot(os.path.join(os.environ["LAB_DIR"], "root"))
    os.chdir("/")
    signal.signal(signal.SIGCHLD, reap)
    os.write(report_fd, host_pid.encode())
    os.close(report_fd)
    if os.read(lifeline_fd, 1):
        stay()


def reap(*_: object) -> None:
    """Bury all dead children."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def stay() -> None:
    """Live on after the process that made the lab has gone."""
    while True:
        signal.pause()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
