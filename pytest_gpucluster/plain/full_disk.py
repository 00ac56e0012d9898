"""A disk that takes no more, known by what a write to it answers."""

import errno

REFUSED = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
"""What a write answers that will not get better: disk full, quota, size limit, read-only, broken."""
