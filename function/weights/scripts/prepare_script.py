"""Make the directory of one model on a claim whose root belongs to somebody else, and give it to the download's user.

This file runs as root inside the initializer's image, before the download and with no capability but CHOWN,
DAC_OVERRIDE and FOWNER. Its arguments are the claim's mount, the directory below it, and the user and group. Nothing
else changes hands: neither the claim's root, nor `models`, nor what lies beside, nor what a symbolic link points to.
"""

import errno
import os
import stat
import sys
from contextlib import suppress

REFUSED = 46  # the container's own: root may not do this here (root_squash, read-only)
FULL = 43  # as the download's
FAULTS = {errno.ENOSPC: FULL, errno.EDQUOT: FULL}
FAULTS |= dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENOTDIR), REFUSED)
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def opened(root: str, directory: str) -> int:
    """Return a handle on a directory below the root; those missing on the way are made, and no link is followed."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in directory.split("/"):
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=handle)
        below = os.open(part, DIRECTORY, dir_fd=handle)
        os.close(handle)
        handle = below
    return handle


def own(handle: int, user: int, group: int) -> None:
    """Give a directory and all below it to a user who may write there; what is theirs already is left alone."""
    for _, folders, files, here in os.fwalk(".", dir_fd=handle):
        for name in (".", *folders, *files):
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
            if (found.st_uid, found.st_gid) != (user, group):
                os.chown(name, user, group, dir_fd=here, follow_symlinks=False)
        mode = stat.S_IMODE(os.fstat(here).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(".", mode | stat.S_IRWXU, dir_fd=here)


def main(root: str, directory: str, user: str, group: str) -> int:
    """Return the exit code: of what nobody foresaw 1, which is tried again."""
    try:
        handle = opened(root, directory)
        own(handle, int(user), int(group))
        os.close(handle)
    except OSError as error:
        sys.stdout.write(f"{root}/{directory} cannot be given to {user}:{group}: {error.strerror}\n")
        return FAULTS.get(error.errno or 0, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
