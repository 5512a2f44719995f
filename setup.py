"""Build the kernels: `_core/*.pyx` become `slurmfair._core.*` (everything else is in pyproject.toml).

The edges to Slurm are built where Slurm's headers and libslurmfull are: $SLURM_INCLUDE_DIR and
$SLURM_LIB_DIR, or the places that distributions use. Without them slurmfair reads through pyslurm only.
"""

import ctypes
import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# Listed by name, so that a stray file is never built.
KERNELS = ("order", "rewrite", "divide", "usage")
SLURM_EDGES = ("_jobs", "_accounting", "_nodes")
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


def slurm_extensions() -> list[Extension]:
    """Return the edges to Slurm, none where Slurm is not installed for building."""
    headers = Path(os.environ.get("SLURM_INCLUDE_DIR", "/usr/include"))
    libraries = library_folder()
    if libraries is None or not (headers / "slurm/slurm.h").is_file():
        print("slurmfair: built without its own edge to Slurm (no slurm/slurm.h or no libslurmfull.so);"
              " set SLURM_INCLUDE_DIR and SLURM_LIB_DIR to have it", file=sys.stderr)  # fmt: skip
        return []
    return [
        Extension(
            f"slurmfair.slurm.{name}",
            [f"slurmfair/slurm/{name}.pyx"],
            include_dirs=[str(headers)],
            library_dirs=[str(libraries)],
            runtime_library_dirs=[str(libraries)],
            libraries=["slurmfull"],
            define_macros=[*MACROS, ("SLURMFAIR_API_VERSION", str(api_version(libraries)))],
            extra_compile_args=["-O2"],
        )
        for name in SLURM_EDGES
        if name != "_nodes" or "alloc_tres_fmt_str" in (headers / "slurm/slurm.h").read_text(errors="replace")
    ]


def api_version(libraries: Path) -> int:
    """Return the library's own number, which changes with each major release of Slurm."""
    ask = ctypes.CDLL(str(libraries / "libslurmfull.so")).slurm_api_version
    ask.restype = ctypes.c_long
    return int(ask())


def library_folder() -> Path | None:
    """Return the folder of libslurmfull, which is what pyslurm is linked with."""
    given = os.environ.get("SLURM_LIB_DIR")
    roots = [Path(given)] if given else [Path("/usr/lib64"), *sorted(Path("/usr/lib").glob("*-linux-gnu"))]
    places = [root / name for root in roots for name in ("", "slurm", "slurm-wlm")]
    return next((place for place in places if (place / "libslurmfull.so").exists()), None)


def checked_before(name: str) -> bool:
    """Tell whether the last build was a checked one: a change of directives does not change the source's date."""
    made = Path(f"_core/{name}.c")
    return made.exists() and "CYTHON_TRACE_NOGIL" in made.read_text()[:1000]  # in the metadata on top


setup(
    ext_modules=cythonize(
        [*(extension(name) for name in KERNELS), *slurm_extensions()],
        compiler_directives=DIRECTIVES,
        force=CHECKED or any(checked_before(name) for name in KERNELS),
    )
)
