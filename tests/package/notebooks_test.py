#!/usr/bin/env python3
"""The wheel's own notebooks run from where it installs them, with nothing of this tree: the module,
the command and the examples are the wheel's. Jupyter's parts are the system's; skips without them.
Usage: notebooks_test.py SOURCE_DIR BUILD_DIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PYTHON = "/usr/bin/python3"  # the one that the module was built for
RUN = """
import os, pathlib, sys
import nbformat, weir
from nbclient import NotebookClient
environment, folder = map(pathlib.Path, sys.argv[1:])
assert environment in pathlib.Path(weir.__file__).parents, weir.__file__
paths = sorted(folder.glob("*.ipynb"))
assert len(paths) >= 2, paths
for path in paths:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, startup_timeout=180,
                   resources={"metadata": {"path": folder}}).execute()
    drawn = [output for cell in notebook.cells if cell.cell_type == "code"
             for output in cell.outputs if "image/png" in output.get("data", {})]
    assert len(drawn) >= 3, (path, len(drawn))
print(f"notebooks: {len(paths)} of the wheel ran")
"""
source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
if build != source / "build":
    print(f"notebooks: the wheel is made of {source / 'build'}, and this is {build}")
    sys.exit(77)
if subprocess.run([PYTHON, "-c", "import nbclient, ipykernel, matplotlib, numpy"],
                  capture_output=True).returncode != 0:
    print("notebooks: no nbclient, ipykernel, matplotlib and numpy here")
    sys.exit(77)

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    made = subprocess.run([source / "tests/package/wheel", folder], text=True, capture_output=True)
    wheels = list(folder.glob("weir-*.whl"))
    if made.returncode == 0 and not wheels:
        print(f"notebooks: {made.stdout}")
        sys.exit(77)
    if made.returncode != 0:
        sys.exit(f"notebooks: {made.stdout}{made.stderr}")
    environment = folder / "env"
    subprocess.run([PYTHON, "-m", "venv", "--system-site-packages", environment], check=True)
    subprocess.run([environment / "bin/pip", "install", "-q", "--disable-pip-version-check",
                    "--no-index", "--no-deps", *wheels], check=True)
    # The system's kernel would be the system's Python, which has no weir.
    kernel = folder / "data/kernels/python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(json.dumps({
        "argv": [str(environment / "bin/python"), "-m", "ipykernel_launcher", "-f",
                 "{connection_file}"], "display_name": "weir", "language": "python"}))
    own = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline",
           "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
           "JUPYTER_DATA_DIR": str(folder / "data"), "MPLCONFIGDIR": str(folder / "mpl"),
           "PATH": f"{environment / 'bin'}:{os.environ['PATH']}"}
    own.pop("PYTHONPATH", None)
    done = subprocess.run([environment / "bin/python", "-c", RUN, environment,
                           environment / "share/weir/notebooks"], text=True, capture_output=True,
                          env=own, cwd=folder)
    if done.returncode != 0:
        sys.exit(f"notebooks: {done.stdout[-2000:]}{done.stderr[-3000:]}")
    print(done.stdout.strip())
