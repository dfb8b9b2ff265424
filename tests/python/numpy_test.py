#!/usr/bin/env python3
"""Traces as arrays under NumPy 1 and NumPy 2: the same records, whatever is installed here."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

# One rank, two micro-batches of gpipe: F takes 2 ms, B as long as I and W together, 3 ms.
CHECK = """
import numpy, sys, weir
assert numpy.__version__.split(".")[0] == sys.argv[1], numpy.__version__
_, trace = weir.schedule("gpipe", 1, 2).time(f_s=2e-3, i_s=1e-3, w_s=2e-3)
spans = trace.spans
compute = spans[spans["lane"] == "compute"]
fields = ["rank", "kind", "stage", "microbatch", "start_ns", "end_ns", "step"]
rows = [tuple(row[name].item() for name in fields) for row in compute]
ms = 1_000_000
assert rows == [(0, "F", 0, 0, 0, 2 * ms, 0), (0, "F", 0, 1, 2 * ms, 4 * ms, 0),
                (0, "B", 0, 0, 4 * ms, 7 * ms, 0), (0, "B", 0, 1, 7 * ms, 10 * ms, 0)], rows
assert spans.dtype["start_ns"] == numpy.int64 and spans.strides == (spans.itemsize,)
assert trace.steps.tolist() == [(0, 10 * ms)], trace.steps
assert all(c["samples"].dtype.names == ("time_ns", "value") for c in trace.counters)
spans["step"] = 7  # an array of one's own
assert trace.spans["step"].tolist() == [0] * len(spans)
"""


def check(major, *folders):
    """The script's complaint, or nothing."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", CHECK, str(major)], capture_output=True,
                          text=True, env=os.environ | {"PYTHONPATH": path})
    return done.stderr


class Arrays(unittest.TestCase):
    def test_with_the_numpy_that_is_here(self):
        import numpy
        self.assertEqual(check(numpy.__version__.split(".")[0]), "")

    def test_with_the_other_numpy(self):
        import numpy
        wanted = "numpy>=2,<3" if numpy.__version__.startswith("1.") else "numpy<2"
        with tempfile.TemporaryDirectory() as folder:
            got = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", folder,
                                  "--only-binary=:all:", "--disable-pip-version-check", wanted],
                                 capture_output=True, text=True)
            if got.returncode != 0 or not (pathlib.Path(folder) / "numpy").is_dir():
                self.skipTest(f"{wanted} cannot be had here: {got.stderr.strip()[-120:]}")
            self.assertEqual(check(2 if ">=" in wanted else 1, folder), "")


if __name__ == "__main__":
    unittest.main()
