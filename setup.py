"""The compiled code; all else is in pyproject.toml. Without a compiler Weft installs without it and is slower.

It is a plain shared library: no header of Python or torch is needed to build it, and it is loaded with ctypes.
"""

import runpy

from setuptools import Extension, setup

NATIVE = "src/weft/core/native"
SOURCE = runpy.run_path(f"{NATIVE}/source.py")["fingerprint"]()  # by which the loader knows what it was built from

setup(
    ext_modules=[
        Extension(
            "weft.core.native._compiled",
            [f"{NATIVE}/{name}.c" for name in ("recurrence", "pointwise", "decoding", "source")],
            depends=[f"{NATIVE}/common.h", f"{NATIVE}/product.h"],
            define_macros=[("WEFT_SOURCE", SOURCE)],
            libraries=["m"],
            extra_compile_args=[
                "-O3",
                "-fopenmp-simd",
                "-fno-math-errno",
                "-fno-trapping-math",
                "-fno-wrapv",  # Python's own flags have -fwrapv, with which gcc leaves most loops one value at a time
                "-ffp-contract=fast",
            ],
            optional=True,
        )
    ]
)
