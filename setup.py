"""Build the kernels: `_core/*.pyx` become `slurmfair._core.*` (everything else is in pyproject.toml)."""

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

# Listed by name, so that a stray file is never built.
KERNELS: tuple[str, ...] = ("divide", "usage")
CHECKED = os.environ.get("SLURMFAIR_CHECKED") == "1"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKED,
    "wraparound": False,
    "initializedcheck": CHECKED,
    "cdivision": True,
    "linetrace": CHECKED,
    "embedsignature": True,
}
MACROS: list[tuple[str, str | None]] = [("CYTHON_TRACE_NOGIL", "1")] if CHECKED else []


def extension(name: str) -> Extension:
    """Return the extension of one kernel."""
    return Extension(
        f"slurmfair._core.{name}",
        [f"_core/{name}.pyx"],
        define_macros=MACROS,
        extra_compile_args=["-O2" if CHECKED else "-O3"],
    )


setup(
    ext_modules=cythonize(
        [extension(name) for name in KERNELS],
        compiler_directives=DIRECTIVES,
        force=CHECKED,  # a change of directives does not change the source's date
    )
)
