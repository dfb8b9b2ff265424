"""Where a case happens: a folder in memory where there is one, a small disk, another user."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

NOBODY = 65534


def temporary_folder():
    """Checkpoints are made durable, which takes long on a busy disk and no time in memory."""
    shared = "/dev/shm"
    where = shared if os.access(shared, os.W_OK | os.X_OK) else None
    folder = tempfile.TemporaryDirectory(prefix="weir-chaos-", dir=where)
    os.chmod(folder.name, 0o755)
    return folder


def can_mount():
    """Whether a small disk of our own can be had."""
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder],
                              capture_output=True, check=False)
        if made.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return made.returncode == 0


@contextlib.contextmanager
def small_disk(folder, kibibytes):
    """`folder`, a disk that holds so much."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k,mode=755", "tmpfs", folder],
                   check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def become_nobody():
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def can_be_nobody(program):
    """Root may write everywhere and start as much as it likes: such faults need another user."""
    if os.getuid() != 0:
        return True
    done = subprocess.run([program, "--version"], preexec_fn=become_nobody, capture_output=True,
                          check=False)
    return done.returncode == 0


def give_to_nobody(folder):
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)


def forbid(folder):
    """None of it may be written any more by who is not root."""
    for path in [*folder.rglob("*"), folder]:
        if path.is_dir():
            path.chmod(0o555)


def allow(folder):
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in pathlib.Path(folder).rglob("*") if path.is_file()}


def kibibytes_of(folder):
    """As a disk of 4 KiB pages counts them, folders too."""
    pages = 1
    for path in folder.rglob("*"):
        pages += 1 + (path.stat().st_size + 4095) // 4096 if path.is_file() else 1
    return 4 * pages


def copy(source, target):
    shutil.copytree(source, target, dirs_exist_ok=True)


def remove(folder):
    if folder.exists():
        allow(folder)
        shutil.rmtree(folder)
