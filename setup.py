"""The compiled parts; all else is in pyproject.toml. Without a compiler Weft installs without it and is slower.

It is a plain shared library: no header of Python or torch is needed to build it, and it is loaded with ctypes.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "weft.core.native._compiled",
            [f"src/weft/core/native/{name}.c" for name in ("recurrence", "pointwise", "decoding")],
            depends=["src/weft/core/native/common.h", "src/weft/core/native/product.h"],
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
