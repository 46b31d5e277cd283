# SPDX-License-Identifier: BSD-2-Clause
"""The part of the build that pyproject.toml can't say: kvd._fast, where there is a compiler and
<kvd.h>; the module works without it."""

import os
import sys

from setuptools import Extension, setup

here = os.path.dirname(os.path.abspath(__file__))
beside = os.path.join(here, "..", "client")  # in the source tree

setup(
    ext_modules=[
        Extension(
            "kvd._fast",
            ["_fast.c"],
            include_dirs=[beside] if os.path.exists(os.path.join(beside, "kvd.h")) else [],
            extra_compile_args=["-std=gnu11", "-O2"],
            py_limited_api=True,
            optional=True,
        )
    ]
    if sys.version_info >= (3, 10) and sys.implementation.name == "cpython"
    else [],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
