#!/usr/bin/env python3
"""No program of ours links the driver's library, CUPTI, cuDNN or NCCL: it would not even start
where they are not, and could not say so. Usage: links_test.py PROGRAM..."""
# SPDX-License-Identifier: Apache-2.0
import re
import subprocess
import sys

faults = []
for program in sys.argv[1:]:
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libcudart" in needed, f"{program} is not a CUDA build:\n{needed}"
    faults += [
        f"{program} links {line.strip()}"
        for line in needed.splitlines()
        if re.search(r"\blib(cuda|cupti|cudnn\w*|nccl)\.so", line)
    ]
print("\n".join(faults) or "links: the driver, CUPTI, cuDNN and NCCL are looked up, never linked")
sys.exit(1 if faults else 0)
