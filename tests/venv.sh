#!/usr/bin/env bash
# Makes the virtual environment that tests, benchmarks and linters run in: tests/venv.sh PYTHON FOLDER
set -euo pipefail
python=$1 venv=$2

need_packages() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || {
        echo "make: a C compiler, Python's headers and its venv module are needed; install them and try again" >&2
        exit 1
    }
    echo "make: installing a C compiler, Python's headers and venv"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev python3-dev python3-venv >/dev/null
}

has_tools() {
    command -v gcc >/dev/null &&
        "$python" -c 'import ensurepip, venv, sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))'
}

has_tools 2>/dev/null || need_packages
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check 'setuptools>=77' wheel 'Cython>=3.1' numpy
"$venv/bin/pip" install -q --disable-pip-version-check --no-build-isolation -e '.[test,lint]'
